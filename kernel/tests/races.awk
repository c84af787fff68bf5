# SPDX-License-Identifier: Apache-2.0
# Leave out what KCSAN reports of mainline: it finds races all over the kernel, and
# not the same ones in each run. A race counts if a function of rt.c or deadline.c
# takes part in it, unless it is listed here. Other complaints pass through.
!/KCSAN:/ { print; next }
!/[ _](rt|dl)([ +_\r]|$)|_pushable_|_(lowest|later)_rq|_contending|inactive_task/ {
    next
}
# pull_rt_task() looks at other CPUs' queues before it takes their locks.
/data-race in (dequeue|enqueue)_pushable_task \/ pull_rt_task/ { next }
# Another CPU asks whether this one is idle.
/data-race in [_a-z]+ \/ (sched_core_)?idle_cpu([ +\r]|$)/ { next }
# idle_rq(), which is inlined there, reads what a waker sets without the lock.
/data-race in update_curr_dl_se\+/ { next }
{ print }
