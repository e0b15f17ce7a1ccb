"""Everything goes wrong at once in the simulator, and every promise is judged. `make hunt SEEDS=1000` tries more."""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from itertools import product

import pytest
from msgspec.structs import replace

from tidings.machine.streams import random_stream
from tidings.model.bounds import PUBLICATION_BYTES_MAX
from tidings.model.identity import NodeId
from tidings.protocols.access.judge import open_judge
from tidings.sim.cast import Until
from tidings.sim.fault_schedule import DRAWERS
from tidings.sim.faults import Break, Crash, Fault, FaultPlan, Partition, Pause
from tidings.sim.library import find
from tidings.sim.library.nemesis import (
    LATENCIES,
    LOSSES,
    RATES_BPS,
    REDUCTIONS,
    SETTLING,
    STRATEGIES,
    Stage,
    as_stage,
    draw_drains,
    draw_network,
    draw_routing,
    make_stage_broker,
    script_of,
)
from tidings.sim.library.nemesis_overlays import DRAWN
from tidings.sim.library.nemesis_strangers import WORDS
from tidings.sim.network.bandwidth import Bandwidth
from tidings.sim.network.latency import Constant, Jittered
from tidings.sim.network.loss import Loss
from tidings.sim.node import Make
from tidings.sim.order import RunOrder, fulfil, run_all
from tidings.sim.scenario import run_scenario
from tidings.sim.topologies import Topology
from tidings.workloads.churn import FOR_EVER
from tidings.workloads.nemesis.campaign import (
    CLOCK_ERRORS,
    GUARANTEES,
    HEAD_ROOM_BYTES,
    POLICIES,
    SHAPES,
    TABLE_MAX,
    TENANTS,
    WINDOWS,
    CampaignParams,
    draw_campaign,
)

SEED_WITH_STRANGERS = 33


# Among them are groups, tenants, readings, large events, short histories and readers that are turned out.
@pytest.mark.parametrize("seed", [*range(18), 33, 159, 587, 866, 20242])
def test_every_promise_holds_whatever_fails(seed: int) -> None:
    order = RunOrder(scenario="nemesis", seed=seed)
    result = fulfil(order, find("nemesis"))
    assert result.passed, "\n".join([*map(str, result.problems), order.command()])
    assert result.judged["publications"] > 0


# Up to six brokers are drained beside all that fails: clients move, and lose brokers while they do.
def test_every_promise_holds_where_brokers_are_drained() -> None:
    moves = 0
    for seed in range(6):
        scenario = find("nemesis").scenario({"drains": 6})
        result = run_scenario(scenario, seed)
        assert result.passed, "\n".join(map(str, result.problems))
        moves += result.judged["moves"]
    assert moves > 5


def test_the_same_seed_is_the_same_run() -> None:
    order = RunOrder(scenario="nemesis", seed=3)
    (_, first), (_, again) = run_all(find("nemesis"), [order, order])
    assert first == again


def test_no_reader_has_more_to_take_than_it_can_before_the_end() -> None:
    for seed in range(1000):
        campaign = draw_campaign(CampaignParams(), seed)
        events = sum(len(writer.written) for writer in campaign.writers)
        for wanted in (wanted for reader in campaign.readers for wanted in reader.wanted):
            # A client says what it took when half of its window is taken.
            trips = events / max(1, wanted.window // 2)
            assert events * wanted.pause + trips * 2.2 * max(LATENCIES) < 0.75 * SETTLING, (
                seed,
                campaign.scale,
                wanted,
            )


def test_a_thousand_seeds_draw_everything_that_is_promised_up_to_its_bound() -> None:
    """What `docs/concepts/promises.md` says is drawn is drawn by `make hunt SEEDS=1000`; nothing of it is run here."""
    scenario, drawn = find("nemesis").scenario({}), Counter[object]()
    for seed in range(1000):
        stage = scenario.topology(seed)
        assert isinstance(stage, Stage)
        routing = draw_routing(random_stream(seed, "nemesis routing"), "resuming")
        drawn.update([(routing.strategy, routing.reduction), *of_network(seed), *of_campaign(stage), *of_names(stage)])
        drawn.update(["drain"] if draw_drains(stage, 2) else [])
        drawn.update({of_fault(fault) for fault in scenario.faults(stage, scenario.duration, seed).faults})
    expected: set[object] = {
        *product(STRATEGIES, REDUCTIONS),
        *(("latency", each) for each in LATENCIES),
        *(("loss", each) for each in LOSSES),
        *(("rate", each) for each in RATES_BPS),
        *(("brokers", each) for each in range(2, 17)),
        *(("shape", each) for each in SHAPES),
        *(("clock error", each) for each in CLOCK_ERRORS),
        *(("writers", each) for each in (1, 2, 3, 4, 5, 60, 10_000)),
        *(("tenant", each) for each in TENANTS),
        *(("guarantee", each) for each in GUARANTEES),
        *(("policy", each) for each in POLICIES),
        *(("window", each) for each in WINDOWS),
        *("short history", "moving reader", "moving writer", "withdrawal", "unsubscription", "group", "since", "pause"),
        *("reading", "reading in the end", "durable", "not durable", "many at once", "receipt", "3,000 events"),
        *("largest event", f"{TABLE_MAX} subscriptions"),
        *("crash of broker", "silent crash of broker", "crash of client", "pause of broker", "pause of client"),
        *("partition", "partition in one direction", "clog", "clock", "slow-disk", "full-disk", "corrupt"),
        *("break between brokers", "break of client", "end of client"),
        "drain",
        *("names are known", "names are claims", "claims of a broker", "claims of a client", *WORDS),
    }
    assert not [each for each in expected if not drawn[each]]
    assert len(DRAWERS) == 10, "a new kind of fault is to be drawn here too"


@pytest.mark.parametrize(
    ("repair", "seed"),
    [*product(dict.fromkeys((*DRAWN, "shift")), (2, 3)), ("path", 5), ("informed", 4), ("notified", 5), ("shift", 5)],
)
def test_every_promise_holds_across_every_repair(repair: str, seed: int) -> None:
    order = RunOrder(scenario="nemesis", seed=seed, settings={"repair": repair})
    result = fulfil(order, find("nemesis"))
    assert result.passed, "\n".join([*map(str, result.problems), order.command()])
    assert result.judged["publications"] > 0


def test_all_repairs_are_drawn_each_on_an_overlay_that_tells_enough() -> None:
    scenario = find("nemesis").scenario({})
    stages = [as_stage(scenario.topology(seed)) for seed in range(60)]
    assert {stage.repair for stage in stages} == {*DRAWN, "shift"}
    for repair in ("path", "shift"):
        scripted = [stage for stage in stages if stage.repair == repair]
        assert any(script_of(stage) for stage in scripted), f"nothing changes the links where the repair is {repair}"
    for stage in stages:
        # A pair that does not fit is refused when the broker is made (D-7).
        make = scenario.roles(stage)[stage.brokers[0]]
        make(lambda purpose: random_stream(1, purpose))


def of_names(stage: Stage) -> set[object]:
    if stage.strangers is None:
        return {"names are known"}
    drawn: set[object] = {"names are claims"}
    for stranger in stage.strangers:
        drawn.add(f"claims of a {'broker' if stranger.claims.startswith('n') else 'client'}")
        drawn.update(word for _, words in stranger.calls for word in words)
    return drawn


def test_a_stranger_that_is_let_in_is_noticed() -> None:
    scenario = find("nemesis").scenario({})

    def open_doors(topology: Topology) -> Mapping[NodeId, Make]:
        roles = dict(scenario.roles(topology))
        for broker in as_stage(topology).campaign.brokers:
            made = roles[broker.name]
            assert isinstance(made, partial) and made.func is make_stage_broker
            roles[broker.name] = partial(made.func, *made.args[:-1], open_judge)
        return roles

    calm = FaultPlan()
    assert run_scenario(scenario, SEED_WITH_STRANGERS, calm).passed
    result = run_scenario(replace(scenario, roles=open_doors), SEED_WITH_STRANGERS, calm)
    assert [problem.text for problem in result.problems if "is believed" in problem.text]


def of_network(seed: int) -> list[object]:
    rule = draw_network(random_stream(seed, "nemesis network"), 1.0)
    rate_bps = rule.rate_bps if isinstance(rule, Bandwidth) else 0.0
    until = rule.inner if isinstance(rule, Bandwidth) else rule
    assert isinstance(until, Until) and isinstance(until.inner, Loss)
    calm = until.innermost
    constant = calm.inner if isinstance(calm, Jittered) else calm
    assert isinstance(constant, Constant)
    return [("rate", rate_bps), ("loss", until.inner.probability), ("latency", constant.fates[0])]


def of_campaign(stage: Stage) -> set[object]:
    campaign = stage.campaign
    wanted = [each for reader in campaign.readers for each in reader.wanted]
    written = [each for writer in campaign.writers for each in writer.written]
    reads = [each for reader in campaign.readers for each in reader.read]
    bursts = Counter((writer.name, each.at, each.offer) for writer in campaign.writers for each in writer.written)
    drawn: set[object] = {
        ("brokers", len(campaign.brokers)),
        ("shape", campaign.shape),
        ("clock error", campaign.clock_error),
        ("writers", len(campaign.writers)),
        *(("tenant", each) for each in campaign.tenants),
        *(("guarantee", each.guarantee) for each in wanted),
        *(("policy", each.policy) for each in wanted),
        *(("window", each.window) for each in wanted),
        *("durable" if broker.is_durable else "not durable" for broker in campaign.brokers),
    }
    largest = PUBLICATION_BYTES_MAX - HEAD_ROOM_BYTES
    said = {
        "short history": campaign.may_forget,
        "moving reader": any(len(reader.brokers) > 1 for reader in campaign.readers),
        "moving writer": bool(campaign.movers),
        "withdrawal": any(each.until is not None for writer in campaign.writers for each in writer.offers),
        "unsubscription": any(each.until is not None for each in wanted),
        "group": any(each.group for each in wanted),
        "since": any(each.since is not None for each in wanted),
        "pause": any(each.pause for each in wanted),
        "reading": any(each.at < campaign.until for each in reads),
        "reading in the end": any(each.at > campaign.until for each in reads),
        "many at once": any(count > 1 for count in bursts.values()),
        "receipt": any(each.wants_receipt for each in written),
        # Each writer publishes as many as every other, so a few less than the bound are left.
        "3,000 events": len(written) > 2_900 and len(campaign.writers) <= 60,
        "largest event": any(each.payload_bytes == largest for each in written),
        f"{TABLE_MAX} subscriptions": len(wanted) == TABLE_MAX,
    }
    return drawn | {name for name, is_drawn in said.items() if is_drawn}


def of_fault(fault: Fault) -> str:
    whose = "broker" if fault.nodes[0].startswith("n") else "client"
    match fault:
        case Crash(until=until) if until == FOR_EVER:
            return f"end of {whose}"
        case Crash(silent=silent):
            return f"{'silent ' if silent and whose == 'broker' else ''}crash of {whose}"
        case Pause():
            return f"pause of {whose}"
        case Partition(direction=direction) if direction != "both":
            return "partition in one direction"
        case Break(one=one):
            return "break between brokers" if one.startswith("n") else "break of client"
    return fault.kind
