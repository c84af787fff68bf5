# SPDX-License-Identifier: Apache-2.0
"""``flavor specs``: the commands that make a real-time flavor."""

import argparse
from collections.abc import Iterable
import dataclasses
import shlex

from nova_rt import exception
from nova_rt.cmd.cli import base
from nova_rt.reservation import cpulist, extra_specs, resources, spec_values
from nova_rt.reservation.bounds import Bounds

#: A record holds so many CPUs, and Placement so much bandwidth.
_VCPUS = spec_values.Number(1, cpulist.MAX_PACKED)
# What Nova's database holds.
_SIZE = spec_values.Number(0, 2**31 - 1)
_MAX_NAME = 255


@dataclasses.dataclass(frozen=True)
class Flavor:
    """A flavor to be made.

    :ivar name: its name
    :ivar vcpus: its number of CPUs
    :ivar specs: its extra specs
    :ivar surplus: names of extra specs that it must not have
    :ivar sizes: other options of ``openstack flavor create``
    """

    name: str
    vcpus: int
    specs: dict[str, str]
    surplus: tuple[str, ...]
    sizes: tuple[str, ...] = ()

    def create(self) -> str:
        """The command that makes it."""
        return _openstack(
            'create', self.name, '--vcpus', str(self.vcpus), *self.sizes,
            *_properties(f'{key}={text}' for key, text in self.specs.items()),
        )  # fmt: skip

    def change(self) -> str:
        """The command that gives its extra specs to an existing flavor."""
        return _openstack(
            'set', self.name,
            *_properties(f'{key}={text}' for key, text in self.specs.items()),
        )  # fmt: skip

    def strip(self) -> str:
        """The command that removes forbidden properties."""
        return _openstack('unset', self.name, *_properties(self.surplus))

    def turn(self) -> str:
        """The lines for a shell that turn an existing flavor into it."""
        return f'{self.change()}\n# If the flavor has it:\n# {self.strip()}'


def _openstack(verb: str, name: str, *options: str) -> str:
    return shlex.join(['openstack', 'flavor', verb, name, *options])


def _properties(texts: Iterable[str]) -> list[str]:
    return [word for text in texts for word in ('--property', text)]


def design(
    name: str | None, vcpus: int, given: dict[str, str], allowed: Bounds
) -> Flavor:
    """Compute the properties of a real-time flavor.

    :param name: None for a name made of the reservation
    :param given: ``rt:`` extra specs
    :param allowed: the operator's bounds
    :returns: the flavor
    :raises InvalidRequest: if its servers would be refused
    """
    request = allowed.parse_request(given, vcpus)
    assert request is not None  # it has a reservation
    if name is None:
        reserved = str(request.reservation).replace('/', '-')
        name = f'rt.{vcpus}x{reserved}'
    specs = given | resources.ask(request)
    return Flavor(name, vcpus, specs, tuple(resources.surplus(request)))


class Specs(base.Command):
    """Print the commands that make a real-time flavor.

    They carry the requests of its servers to Placement, so that a
    scheduler without RTBandwidthFilter sends them to no other host. Nothing
    is changed: run the printed commands.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Offer an option for each extra spec."""
        for field, spec in extra_specs.SPECS.items():
            default = spec.default_text
            told = '' if default is None else f' Default: {default}.'
            parser.add_argument(
                f'--{field}',
                required=spec.default is dataclasses.MISSING,
                metavar=field.upper(),
                help=f'{spec.key}: {spec.values.form}.{told}',
            )
        parser.add_argument(
            '--vcpus',
            required=True,
            metavar='N',
            help=f'Number of vCPUs, {_VCPUS.form}.',
        )
        parser.add_argument(
            '--name',
            help='Name of the flavor. Default: one that says what it '
            'reserves.',
        )
        parser.add_argument(
            '--ram', metavar='MB', help='RAM. Default: that of openstack.'
        )
        parser.add_argument(
            '--disk',
            metavar='GB',
            help='Root disk. Default: that of openstack.',
        )
        parser.add_argument(
            '--existing',
            action='store_true',
            help='Print what turns an existing flavor with this name and '
            'number of vCPUs into a real-time one.',
        )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Print them.

        :raises CannotRun: if the flavor would be refused
        """
        try:
            flavor = self._read(parsed_args)
        except exception.InvalidRequest as err:
            raise base.CannotRun(str(err)) from err
        if not parsed_args.existing:
            print(flavor.create(), file=self.app.stdout)
            return
        print(flavor.turn(), file=self.app.stdout)

    def _read(self, given: argparse.Namespace) -> Flavor:
        specs = {}
        for field, spec in extra_specs.SPECS.items():
            value = getattr(given, field)
            if value is None and given.existing:
                # It may have another one.
                value = spec.default_text
            if value is not None:
                specs[spec.key] = value
        vcpus = _VCPUS.parse('--vcpus', given.vcpus)
        if given.existing and (given.ram or given.disk):
            raise base.CannotRun(
                'the sizes of an existing flavor cannot be changed: leave '
                'out --ram and --disk'
            )
        if given.existing and given.name is None:
            raise base.CannotRun('--existing needs the --name of the flavor')
        sizes = []
        for option in ('ram', 'disk'):
            text = getattr(given, option)
            if text is not None:
                size = _SIZE.parse(f'--{option}', text)
                sizes += [f'--{option}', str(size)]
        if given.name is not None:
            _check_name(given.name)
        flavor = design(
            given.name,
            vcpus,
            specs,
            Bounds.from_options(self.conf.nova_rt),
        )
        return dataclasses.replace(flavor, sizes=tuple(sizes))


def _check_name(name: str) -> None:
    """Check that Nova takes a name, and openstack takes it for one.

    :raises CannotRun: if not
    """
    if not 0 < len(name) <= _MAX_NAME:
        raise base.CannotRun(f'a name has 1 to {_MAX_NAME} characters')
    if name.startswith('-'):
        raise base.CannotRun(
            f'{name!r} is no name that openstack takes: it starts with a dash'
        )
    # nova/api/validation/parameter_types.py, flavor_name
    if not name.isprintable() or name != name.strip():
        raise base.CannotRun(
            f'{name!r} is no name that Nova takes: it has characters that '
            'cannot be printed, or white space around it'
        )
