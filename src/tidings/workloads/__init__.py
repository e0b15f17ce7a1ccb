"""The laws of workloads: who publishes what and when, who wants it, who fails; drawn from a seed, or recorded.

A law is pure: a seed and parameters in, rows out, the same each time and everywhere. Simulations and the lab take them
one by one, Spark makes tables of them (`spark/workloads`), and all of them see the same rows.

    from tidings.workloads.registry import WORKLOADS, make

    for planned in make("w-psdg", {"seed": 7, "brokers": 10}).planned_events():
        print(planned.at, planned.attributes)

`workload.py` says what all workloads have in common, `table.py` why rows do not depend on who draws them, `registry.py`
which there are. What draws with numpy imports it; recorded data, churn and the small laws of the library do without.
"""
