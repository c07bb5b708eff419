"""`statewright worker --ray`: a fleet of workers as Ray actors, whose size follows the age of the queue.

`supervisor` starts, replaces and drains workers; `scaling` and `restarts` decide how many and when, without any input
or output; `demand` reads from the ledger what they need; `fleet` is the port for starting processes, and `ray_fleet`
is its adapter for Ray, whose actors (`worker_actor`) have a worker each (`hosted_worker`).
"""
