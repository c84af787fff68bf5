# SPDX-License-Identifier: Apache-2.0
"""Comparison of the installed Nova with the code that we extend and call.

Half of it is private to Nova and may change in any commit, so its release
number alone says little: the methods that our classes use are compared here.
"""

from collections.abc import Callable, Iterator, Mapping
import dataclasses
import importlib
import inspect
import operator
from typing import Any

#: Versions of Nova on which the whole of nova_rt has run, as a prefix of what
#: the package calls itself -> what that is.
TRIED = {
    '34.': 'release 34',
    '33.0.0.dev373': 'commit 00a030403f, shortly before release 34',
    # The same, from a clone without tags.
    '33.1.0.dev347': 'commit 00a030403f, shortly before release 34',
}


@dataclasses.dataclass(frozen=True)
class Extension:
    """Requirements of a class of ours on the class of Nova that it extends.

    :ivar ours: module and name of our class
    :ivar theirs: module and name of the class that it extends
    :ivar overridden: methods that Nova calls, with the same parameters
    :ivar handed_on: the same, where ours take ``*args, **kwargs`` -> the
        names of Nova's parameters; one that is not in every Nova has a ``?``
    :ivar called: methods that we call -> the names of their parameters
    """

    ours: tuple[str, str]
    theirs: tuple[str, str]
    overridden: frozenset[str]
    handed_on: Mapping[str, str] = dataclasses.field(default_factory=dict)
    called: Mapping[str, str] = dataclasses.field(default_factory=dict)


SCHEDULER = Extension(
    ('nova_rt.scheduler.manager', 'RTSchedulerManager'),
    ('nova.scheduler.manager', 'SchedulerManager'),
    frozenset({'select_destinations'}),
)
MANAGER = Extension(
    ('nova_rt.compute.manager', 'RTComputeManager'),
    ('nova.compute.manager', 'ComputeManager'),
    frozenset(
        {
            '_build_and_run_instance',
            '_delete_stashed_flavor_info',
            '_destroy_evacuated_instances',
            '_do_build_and_run_instance',
            '_do_prep_resize',
            '_finish_resize',
            '_get_rescue_image',
            '_init_instance',
            '_nil_out_instance_obj_host_and_node',
            '_power_on',
            '_prep_resize',
            '_prep_snapshot_based_resize_at_source',
            '_reboot_instance',
            '_resize_instance',
            '_resume_guests_state',
            '_revert_instance_flavor_host_node',
            '_send_finish_resize_notifications',
            'cleanup_host',
            'confirm_resize',
            'finish_revert_resize',
            'init_host',
            'post_start_hook',
            'revert_resize',
        }
    ),
    handed_on={
        '_do_rebuild_instance_with_claim': 'self context instance '
        'orig_image_ref image_meta injected_files new_pass '
        'orig_sys_metadata bdms evacuate on_shared_storage '
        'preserve_ephemeral migration request_spec allocations '
        'rebuild_claim scheduled_node limits accel_uuids '
        'reimage_boot_volume target_state',
    },
    called={
        '_delete_allocation_after_move': 'self context instance migration',
        '_error_out_instance_on_exception': 'self context instance '
        'instance_state',
        '_get_instance_block_device_info': 'self context instance '
        'refresh_conn_info bdms',
        '_get_power_state': 'self instance',
        '_get_scheduler_hints': 'filter_properties request_spec',
        '_revert_allocation': 'self context instance migration',
        '_set_instance_info': 'instance flavor',
        '_set_instance_obj_error_state': 'self instance clean_task_state',
        'reboot_instance': 'self context instance block_device_info '
        'reboot_type',
    },
)
TRACKER = Extension(
    ('nova_rt.compute.resource_tracker', 'RTResourceTracker'),
    ('nova.compute.resource_tracker', 'ResourceTracker'),
    frozenset(
        {
            '_drop_move_claim',
            '_move_claim',
            '_set_instance_host_and_node',
            '_update',
            '_update_usage_from_instance',
            '_update_usage_from_instances',
            '_update_usage_from_migrations',
            'delete_allocation_for_evacuated_instance',
            'delete_allocation_for_shelve_offloaded_instance',
            'finish_evacuation',
            'instance_claim',
            'update_usage',
        }
    ),
    called={'disabled': 'self nodename'},
)
DRIVER = Extension(
    ('nova_rt.virt.libvirt.driver', 'RTLibvirtDriver'),
    ('nova.virt.libvirt.driver', 'LibvirtDriver'),
    frozenset(
        {
            '_create_guest',
            '_destroy',
            'check_can_live_migrate_destination',
            'cleanup_host',
            'emit_event',
            'get_instance_diagnostics',
            'init_host',
            'process_instances_at_startup',
            'reboot',
            'resume_state_on_host_boot',
            'suspend',
            'update_provider_tree',
        }
    ),
    handed_on={
        '_get_guest_config': 'self instance network_info image_meta disk_info '
        'rescue block_device_info context mdevs accel_info share_info '
        'old_guest',
    },
    called={
        '_clean_shutdown': 'self instance timeout retry_interval',
        '_create_domain_cleanup_lxc': 'self instance',
        '_destroy': 'self instance',
    },
)
CONTAINERS = Extension(
    ('nova_rt.lxc.containers', 'ContainerDriver'),
    ('nova.virt.libvirt.driver', 'LibvirtDriver'),
    frozenset(
        {
            '_cleanup_failed_instance_base',
            '_get_instance_disk_info',
            '_get_instance_disk_info_from_config',
            '_teardown_container',
            '_try_fetch_image_cache',
            'delete_instance_files',
            'init_host',
            'migrate_disk_and_power_off',
        }
    ),
    handed_on={
        'finish_migration': 'self context migration instance disk_info '
        'network_info image_meta resize_instance allocations '
        'block_device_info power_on share_info?',
        'finish_revert_migration': 'self context instance network_info '
        'migration block_device_info power_on share_info?',
    },
    called={
        '_create_images_and_backing': 'self context instance instance_dir '
        'disk_info fallback_from_host',
        '_is_booted_from_volume': 'block_device_info',
    },
)
NAMESPACES = Extension(
    ('nova_rt.lxc.user_namespaces', 'UserNamespaceDriver'),
    ('nova.virt.libvirt.driver', 'LibvirtDriver'),
    frozenset({'_create_domain_setup_lxc'}),
    handed_on={
        '_create_guest': 'self context xml instance power_on pause '
        'post_xml_callback',
        '_create_guest_with_network': 'self context xml instance network_info '
        'block_device_info power_on vifs_already_plugged post_xml_callback '
        'external_events cleanup_instance_dir cleanup_instance_disks',
    },
    called={
        '_connect_volume': 'self context connection_info instance encryption',
        '_create_domain_cleanup_lxc': 'self instance',
    },
)
RECONNECTING = Extension(
    ('nova_rt.lxc.reconnecting', 'ReconnectingDriver'),
    ('nova.virt.libvirt.driver', 'LibvirtDriver'),
    frozenset({'_clean_shutdown', '_destroy', '_handle_conn_event'}),
)
EXTENSIONS = (
    SCHEDULER, MANAGER, TRACKER, DRIVER, CONTAINERS, NAMESPACES, RECONNECTING,
)  # fmt: skip

#: Names of Nova that we use beside those: module -> names in it.
NAMES = {
    'nova.compute.rpcapi': (
        'ComputeAPI.confirm_resize',
        'ComputeAPI.finish_revert_resize',
        'ComputeAPI.revert_resize',
    ),
    'nova.policy': ('_ENFORCER',),
    'nova.scheduler.manager': ('SchedulerManager._sentinel',),
    'nova.scheduler.request_filter': ('ALL_REQUEST_FILTERS',),
    'nova.virt.libvirt.config': (
        'LibvirtConfigObject._new_node',
        'LibvirtConfigObject._text_node',
    ),
}


def describe(version: str) -> str | None:
    """Check whether this nova_rt was tested with a version of Nova.

    :returns: a name of that version; None if it was never tried
    """
    for prefix, what in TRIED.items():
        if version.startswith(prefix):
            return what
    return None


def find_misfits() -> list[str]:
    """Compare our needs with the installed Nova.

    A host without libvirt's Python module runs no nova-rt-compute: only the
    needs of nova-rt-scheduler are compared there.

    :returns: a sentence for everything that is missing or different
    """
    return [
        *(text for each in EXTENSIONS for text in _compare(each)),
        *(
            f'{module} has no {name}'
            for module, names in NAMES.items()
            for name in names
            if not _is_there(module, name)
        ),
    ]


def _is_there(module: str, name: str) -> bool:
    try:
        operator.attrgetter(name)(importlib.import_module(module))
    except ImportError as err:
        return err.name == 'libvirt'
    except AttributeError:
        return False
    return True


def _compare(needed: Extension) -> Iterator[str]:
    module, name = needed.ours
    try:
        ours = getattr(importlib.import_module(module), name)
        module, name = needed.theirs
        theirs = getattr(importlib.import_module(module), name)
    except ImportError as err:
        if err.name == 'libvirt':
            return
        yield f'{module} cannot be loaded: {err}'
        return
    except Exception as err:
        # Of any kind: a module of ours uses something of Nova on its way.
        yield f'{module} cannot be loaded: {err!r}'
        return
    yield from compare(needed, ours, theirs)


def compare(needed: Extension, ours: Any, theirs: Any) -> Iterator[str]:
    """Compare a class of ours with the class of Nova that it extends.

    :returns: a sentence for everything that is missing or different
    """
    where = '.'.join(needed.theirs)
    named = {**needed.handed_on, **needed.called}
    for name in sorted(needed.overridden | named.keys()):
        if not hasattr(theirs, name):
            yield f'{where} has no {name}()'
            continue
        found = parameters(getattr(theirs, name))
        if name in needed.overridden:
            fits = found == parameters(getattr(ours, name))
        else:
            fits = _has_names(found, named[name])
        if not fits:
            yield f'{where}.{name}() takes {_render(found)}'


def _has_names(found: list[inspect.Parameter], names: str) -> bool:
    has = [each.name for each in found]
    wanted = [
        name.removesuffix('?')
        for name in names.split()
        if not name.endswith('?') or name.removesuffix('?') in has
    ]
    return has == wanted


def parameters(method: Callable[..., Any]) -> list[inspect.Parameter]:
    """List the parameters of the function below decorators, unannotated.

    oslo.messaging's decorators hide it in a variable.
    """
    method = inspect.unwrap(method)
    if method.__module__.startswith('oslo_messaging.'):
        method = inspect.getclosurevars(method).nonlocals['func']
    return [
        each.replace(annotation=inspect.Parameter.empty)
        for each in inspect.signature(method).parameters.values()
    ]


def _render(found: list[inspect.Parameter]) -> str:
    return f'({", ".join(each.name for each in found)})'
