# SPDX-License-Identifier: Apache-2.0
"""Nova's compute manager, with reservations.

Carries a request from the RequestSpec, which the driver never sees, to the
server's record, and has the reservations verified from time to time.
"""

from importlib import metadata
from typing import Any, NoReturn

from nova import exception as nova_exception
from nova import rpc
from nova.compute import manager, vm_states
from oslo_log import log as logging
from oslo_service import periodic_task

from nova_rt import bounds, conf, events, exception, record
from nova_rt.compute import (
    aside,
    counters,
    notifications,
    reports,
    resource_tracker,
    stopped,
)
from nova_rt.conductor import rpcapi
from nova_rt.conf import exporter
from nova_rt.virt.libvirt import driver, faults, servers

CONF = manager.CONF
LOG = logging.getLogger(__name__)

conf.register_opts(CONF)


class RTComputeManager(manager.ComputeManager):
    """ComputeManager for hosts that hold reservations."""

    def __init__(self, compute_driver=None, *args, **kwargs):
        super().__init__(compute_driver, *args, **kwargs)
        self._rt_reporter = None
        self._rt_bounds = bounds.Bounds.from_options(CONF.nova_rt)
        ours = isinstance(self.driver, driver.RTLibvirtDriver)
        self.rt = resource_tracker.RTResourceTracker(
            self.host,
            self.driver,
            reportclient=self.reportclient,
            reservations=self.driver.reservations if ours else None,
        )
        self._rt_counters = counters.Counters(exporter.find_counters(CONF))

    def init_host(self, service_ref):
        """Refuse to start with a driver that knows no reservations."""
        if not isinstance(self.driver, driver.RTLibvirtDriver):
            raise nova_exception.InvalidConfiguration(
                'nova-rt-compute needs [DEFAULT] compute_driver = '
                f'{driver.COMPUTE_DRIVER}'
            )
        seam = self.driver.reservations.seam
        seam.subscribe(aside.Aside(stopped.StopReporter(self.host)))
        notifications.subscribe(seam, self.host)
        seam.subscribe(self._rt_counters)
        self._rt_counters.start()
        if CONF.nova_rt.report:
            self._rt_reporter = self._rt_make_reporter()
        super().init_host(service_ref)
        if self._rt_reporter is not None:
            self._rt_reporter.start()

    def _rt_make_reporter(self) -> reports.Reporter:
        """Listen from now on; what is sent waits until servers are known."""
        backlog = reports.Backlog()
        self.driver.reservations.seam.subscribe(backlog)
        return reports.Reporter(
            rpcapi.ConductorAPI(rpc.TRANSPORT, self.host),
            self.driver.reservations,
            backlog,
            reports.Epoch(reports.epoch_path(CONF.state_path, self.host)),
            metadata.version('nova_rt'),
            CONF.nova_rt.metrics_interval,
        )

    def cleanup_host(self):
        """End what init_host() has started."""
        if self._rt_reporter is not None:
            self._rt_reporter.stop()
        super().cleanup_host()
        self._rt_counters.stop()

    # Building servers

    def _do_build_and_run_instance(
        self, context: Any, instance: Any, image: Any, request_spec: Any,
        filter_properties: Any, admin_password: Any, injected_files: Any,
        requested_networks: Any, security_groups: Any,
        block_device_mapping: Any, node: Any = None, limits: Any = None,
        host_list: Any = None, accel_uuids: Any = None,
    ) -> Any:  # fmt: skip
        """On the last host there is, keep the reason of a failure.

        Sent back once more, it would end as "Exhausted all hosts available
        for retrying" in the server's fault, without a number.
        """
        last = host_list is not None and not host_list
        if last and servers.is_rt(instance):
            filter_properties = {
                key: value
                for key, value in (filter_properties or {}).items()
                if key != 'retry'
            }
        result = super()._do_build_and_run_instance(
            context, instance, image, request_spec, filter_properties,
            admin_password, injected_files, requested_networks,
            security_groups, block_device_mapping, node, limits, host_list,
            accel_uuids,
        )  # fmt: skip
        if result == manager.build_results.FAILED_BY_POLICY and servers.is_rt(
            instance
        ):
            # Nova forgets them for this result alone; until the server is
            # deleted, they would keep bandwidth from others.
            self.reportclient.delete_allocation_for_instance(
                context, instance.uuid, force=True
            )
        return result

    def _build_and_run_instance(
        self, context: Any, instance: Any, image: Any, injected_files: Any,
        admin_password: Any, requested_networks: Any, security_groups: Any,
        block_device_mapping: Any, node: Any, limits: Any,
        filter_properties: Any, request_spec: Any = None,
        accel_uuids: Any = None,
    ) -> Any:  # fmt: skip
        """Note in the server's record what was asked for, then build it."""
        hints = self._get_scheduler_hints(filter_properties, request_spec)
        self._rt_note_request(instance, hints)
        try:
            return super()._build_and_run_instance(
                context, instance, image, injected_files, admin_password,
                requested_networks, security_groups, block_device_mapping,
                node, limits, filter_properties, request_spec, accel_uuids,
            )  # fmt: skip
        except nova_exception.RescheduledByPolicyException:
            # A server group was broken by another server that came first:
            # nothing is wrong with this host or with the request.
            raise
        except nova_exception.RescheduledException as err:
            if filter_properties.get('retry') or not servers.is_rt(instance):
                raise
            # Unlike a reschedule without a next host, an abort also cleans
            # up the server's volumes.
            raise faults.BuildAborted(
                instance_uuid=instance.uuid, reason=faults.tell_failure(err)
            ) from err

    def _rt_note_request(
        self, instance: Any, hints: dict[str, object]
    ) -> None:
        """Put the request into the server's record, CPUs to be claimed.

        :raises BuildAbortException: if it means nothing here; no other host
            could do better
        """
        try:
            request = self._rt_bounds.parse_request(
                instance.flavor.extra_specs, instance.flavor.vcpus, hints
            )
            if request is not None:
                self.driver.reservations.check_request(request)
                servers.write_record(instance, record.Record(request))
        except exception.NovaRTError as err:
            self._rt_refuse(instance, events.Action.REQUEST, err)
            raise faults.BuildAborted(
                instance_uuid=instance.uuid, reason=faults.tell(err)
            ) from err

    # Holding reservations

    @periodic_task.periodic_task(spacing=CONF.nova_rt.verify_interval or -1)
    def _verify_reservations(self, context: Any) -> None:
        """See that every running container has its reservation."""
        self.driver.reservations.verify_all()

    # What is refused

    def _get_rescue_image(self, context: Any, instance: Any,
                          rescue_image_ref: Any = None) -> Any:  # fmt: skip
        """Refuse rescue, in its last step before the server is stopped."""
        if servers.is_rt(instance):
            raise nova_exception.InstanceNotRescuable(
                instance_id=instance.uuid,
                reason=self._rt_refuse(
                    instance,
                    events.Action.RESCUE,
                    'real-time servers are containers, which have no second '
                    'root disk',
                ),
            )
        return super()._get_rescue_image(context, instance, rescue_image_ref)

    def _shelve_instance(
        self, context: Any, instance: Any, image_id: Any,
        clean_shutdown: Any, accel_uuids: Any = None,
    ) -> Any:  # fmt: skip
        """Refuse shelving: it ends in a move."""
        if servers.is_rt(instance):
            # nova-api has made an image for the snapshot that will not come.
            try:
                self.image_api.delete(context, image_id)
            except Exception as err:
                LOG.warning('Could not delete image %s, made for a shelving '
                            'that was refused: %s', image_id, err,
                            instance=instance)  # fmt: skip
            self._rt_refuse_shelving(instance)
        return super()._shelve_instance(
            context, instance, image_id, clean_shutdown, accel_uuids
        )

    def _shelve_offload_instance(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """The same for servers on volumes, which are offloaded at once."""
        if servers.is_rt(instance) and instance.vm_state != vm_states.SHELVED:
            self._rt_refuse_shelving(instance)
        return super()._shelve_offload_instance(
            context, instance, *args, **kwargs
        )

    def _rt_refuse_shelving(self, instance: Any) -> NoReturn:
        raise faults.ActionRefused(
            reason=self._rt_refuse(
                instance, events.Action.SHELVE, faults.CANNOT_MOVE
            )
        )

    def _do_prep_resize(
        self, context: Any, image: Any, instance: Any, flavor: Any,
        request_spec: Any, filter_properties: Any, node: Any,
        clean_shutdown: Any, migration: Any, host_list: Any,
    ) -> Any:  # fmt: skip
        """Do not send a refused move on to the next host."""
        if servers.is_rt_move(instance, flavor):
            filter_properties = {}
        return super()._do_prep_resize(
            context, image, instance, flavor, request_spec,
            filter_properties, node, clean_shutdown, migration, host_list,
        )  # fmt: skip

    def _prep_resize(
        self, context: Any, image: Any, instance: Any, flavor: Any,
        filter_properties: Any, node: Any, migration: Any,
        request_spec: Any, clean_shutdown: bool = True,
    ) -> Any:  # fmt: skip
        """Refuse resize and cold migration; the server stays as it is."""
        if servers.is_rt_move(instance, flavor):
            raise nova_exception.InstanceFaultRollback(
                nova_exception.MigrationError(
                    reason=self._rt_refuse(
                        instance, events.Action.MOVE, faults.CANNOT_MOVE
                    )
                )
            )
        return super()._prep_resize(
            context, image, instance, flavor, filter_properties, node,
            migration, request_spec, clean_shutdown,
        )  # fmt: skip

    def _rt_refuse(
        self, instance: Any, action: events.Action, reason: str | Exception
    ) -> str:
        return self.driver.reservations.refuse(instance.uuid, action, reason)
