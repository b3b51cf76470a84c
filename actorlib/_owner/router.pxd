from actorlib._owner.call_table cimport CallTable as Table

cdef class CallRouter:
    cdef object __weakref__
    cdef public object _loans, _objects, _died, _unavailable, _idle, unsent, callers
    cdef public object _policy, _retries, _timekeeper, _now, _session, _mailbox
    cdef public object channel, _usual_channel
    cdef public dict _timed
    cdef public Table _calls
    cdef public bint _is_closed, _is_draining, _is_held
    cpdef call(self, object ref, object method, object payload, object headers)
    cpdef settle_scalar(self, object number, object value)
