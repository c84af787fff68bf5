# SPDX-License-Identifier: Apache-2.0
"""The manager of nova-rt-scheduler: Nova's, with refusals that say why.

Nova's scheduler answers "no valid host" and keeps the reasons in its debug
log. For real-time servers this one looks once more at the free CPUs, after
the refusal, and puts the reason into the server's fault. It decides nothing,
and a request that finds a host costs nothing more.
"""

from typing import Any

from nova import exception as nova_exception
import nova.conf
from nova.scheduler import manager, utils
from oslo_log import log as logging
import oslo_messaging as messaging

from nova_rt import exception
import nova_rt.conf
from nova_rt.scheduler import refusal_explainer, request_specs

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

nova_rt.conf.register_opts(CONF)


class RTSchedulerManager(manager.SchedulerManager):
    """Nova's SchedulerManager, explaining real-time refusals."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._allowance = refusal_explainer.TokenBucket()

    @messaging.expected_exceptions(nova_exception.NoValidHost)
    def select_destinations(
        self,
        context: Any,
        request_spec: Any = None,
        filter_properties: Any = None,
        spec_obj: Any = manager.SchedulerManager._sentinel,
        instance_uuids: Any = None,
        return_objects: bool = False,
        return_alternates: bool = False,
    ) -> Any:
        """As Nova's; a refusal of a real-time server carries its reason.

        :returns: selections of hosts, as Nova's
        :raises nova.exception.NoValidHost: wrapped for oslo.messaging
        """
        try:
            return super().select_destinations(
                context,
                request_spec,
                filter_properties,
                spec_obj,
                instance_uuids,
                return_objects,
                return_alternates,
            )
        except messaging.ExpectedException as wrapped:
            refusal = wrapped.exc_info[1]
            if isinstance(
                refusal.__context__, nova_exception.RequestFilterFailed
            ):
                # It has its reason, and no host was asked.
                raise refusal
            # An old conductor sends no RequestSpec object.
            reason = (
                None
                if spec_obj is self._sentinel
                else self._explain(context, spec_obj, instance_uuids)
            )
            if reason is None:
                raise refusal
            text = exception.tell(reason, CONF.nova_rt.refusal_details)
            # Its cause travels to the conductor with the traceback, and from
            # there into the details that Nova shows to administrators.
            raise nova_exception.NoValidHost(reason=text) from reason

    def _explain(
        self, context: Any, spec_obj: Any, instance_uuids: list[str] | None
    ) -> exception.NoHost | None:
        """Return a text instead of Nova's reason; None to leave it."""
        try:
            reason = self._look(context, spec_obj, instance_uuids)
        except Exception:
            # The refusal stands, with or without its explanation.
            LOG.exception('A refusal cannot be explained')
            return None
        if reason is not None:
            uuid = instance_uuids[0] if instance_uuids else None
            LOG.info('%s', reason, instance_uuid=uuid)
        return reason

    def _look(
        self, context: Any, spec_obj: Any, instance_uuids: list[str] | None
    ) -> exception.NoHost | None:
        if utils.request_is_rebuild(spec_obj):
            return None
        try:
            asked = request_specs.parse(spec_obj)
        except exception.InvalidRequest:
            # The request filter has said so.
            return None
        if asked is None:
            return None
        if not self._allowance.take():
            LOG.info('Too many refusals at once: this one is not explained')
            return None
        look = refusal_explainer.RefusalExplainer(self, context, spec_obj)
        return look.explain(asked, len(instance_uuids or ()) or 1)
