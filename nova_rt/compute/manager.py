# SPDX-License-Identifier: Apache-2.0
"""Nova's compute manager, with reservations.

Carries a request from the RequestSpec, which the driver never sees, to the
server's record, and has the reservations verified from time to time.
"""

from collections.abc import Iterator
import contextlib
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
from nova.compute import manager
from oslo_log import log as logging
from oslo_service import periodic_task, systemd

from nova_rt import conf, events, exception, faults
from nova_rt.compute import (
    aside,
    counters,
    history,
    move_manager,
    notifications,
    resource_tracker,
    stopped,
)
from nova_rt.conductor import queue
from nova_rt.conf import exporter
from nova_rt.conf import nova as nova_conf
from nova_rt.host.options import Options
from nova_rt.moves import endings, interrupted, remnants
from nova_rt.reservation import record
from nova_rt.tracking import servers
from nova_rt.virt.libvirt import driver

CONF = manager.CONF
LOG = logging.getLogger(__name__)

conf.register_opts(CONF)


@contextlib.contextmanager
def _going_on(message: str, instance: Any) -> Iterator[None]:
    """Log what fails: the other servers of this host need their service.

    :raises InstanceNotFound: passed on
    """
    try:
        yield
    except nova_exception.InstanceNotFound:
        raise
    except Exception:
        LOG.exception(message, instance=instance)


class RTComputeManager(move_manager.MoveManager):
    """ComputeManager for hosts that hold reservations."""

    def __init__(self, compute_driver=None, *args, **kwargs):
        super().__init__(compute_driver, *args, **kwargs)
        self._rt_history = None
        ours = isinstance(self.driver, driver.RTLibvirtDriver)
        self.rt = resource_tracker.RTResourceTracker(
            self.host,
            self.driver,
            reportclient=self.reportclient,
            reservations=self.driver.reservations if ours else None,
        )
        self._rt_counters = counters.Counters(
            exporter.find_counters(CONF),
            Options.from_group(CONF.nova_rt, nova_conf.read_cpus(CONF)),
        )

    def init_host(self, service_ref):
        """Refuse to start with a driver that knows no reservations.

        End what the last service left half done, before this one counts what
        servers hold.
        """
        if not isinstance(self.driver, driver.RTLibvirtDriver):
            raise nova_exception.InvalidConfiguration(
                'nova-rt-compute needs [DEFAULT] compute_driver = '
                f'{driver.COMPUTE_DRIVER}'
            )
        dispatcher = self.driver.reservations.dispatcher
        dispatcher.subscribe(aside.Aside(stopped.StopReporter(self.host)))
        dispatcher.subscribe(aside.Aside(self.driver.running.note_slots))
        dispatcher.subscribe(self._rt_counters)
        self._rt_counters.start()
        channels = []
        if CONF.nova_rt.report:
            self._rt_history = history.History(
                queue.Sender(CONF), self._rt_counters.note_dropped
            )
            self._rt_history.start()
            channels.append(self._rt_history)
        notifications.subscribe(dispatcher, self.host, *channels)
        super().init_host(service_ref)
        interrupted.settle(self, nova_context.get_admin_context())

    def _destroy_evacuated_instances(self, context, node_cache):
        """End also what Nova would leave, now that the host is no other."""
        interrupted.end_lost(self.host, context)
        return super()._destroy_evacuated_instances(context, node_cache)

    def _init_instance(self, context, instance):
        """Go on without a server that is deleted meanwhile.

        While this service is down, nova-api deletes servers by itself. Nova
        does not start then if it goes on with what one of them was doing.
        A resize that it ends holds nothing more in Placement.
        """
        ended = False
        try:
            with _going_on('Could not undo its move', instance):
                ended = interrupted.end_resize(self, context, instance)
            super()._init_instance(context, instance)
            if not ended:
                return
            # Nova has needed it to bring the server's disk back.
            instance.drop_migration_context()
            with _going_on('Could not start it again', instance):
                interrupted.start_again(self, context, instance)
        except nova_exception.InstanceNotFound:
            LOG.warning('It was deleted while this service started',
                        instance=instance)  # fmt: skip

    def post_start_hook(self):
        """Go on with what the last service left, now that this one listens.

        Tell systemd that this one serves: the launcher of oslo.service does
        not, since nova-compute runs in the first process.
        """
        super().post_start_hook()
        endings.ask_again(self, nova_context.get_admin_context())
        systemd.notify_once()

    def cleanup_host(self):
        """End what init_host() has started."""
        super().cleanup_host()
        if self._rt_history is not None:
            # The last tasks have ended only now.
            self._rt_history.stop()
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
            filter_properties = move_manager.without_retry(filter_properties)
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
            asked = self._rt_read_request(instance.flavor, hints)
            if asked is not None:
                servers.write_record(instance, record.Record(asked))
        except exception.NovaRTError as err:
            self._rt_refuse(instance, events.Action.REQUEST, err)
            raise faults.BuildAborted(
                instance_uuid=instance.uuid, reason=faults.tell(err)
            ) from err

    def _nil_out_instance_obj_host_and_node(self, instance):
        """A server that is on no host holds no CPUs.

        Nova calls this when a server was offloaded, and when it could not be
        built or unshelved here; it saves the server afterwards.
        """
        super()._nil_out_instance_obj_host_and_node(instance)
        servers.forget_cpus(instance)

    # Holding reservations

    @periodic_task.periodic_task(spacing=CONF.nova_rt.verify_interval or -1)
    def _verify_reservations(self, context: Any) -> None:
        """See that every running container has its reservation."""
        self.driver.running.verify_all()
        self._rt_counters.note_verified()

    @periodic_task.periodic_task(spacing=CONF.instance_delete_interval)
    def _remove_remnants(self, context: Any) -> None:
        """Remove what moves of servers that are deleted have left."""
        remnants.remove(self, context)

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
