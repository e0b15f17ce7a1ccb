"""Plans carried out: who says what to whom.

Three roles. An *agent* is a part of every broker whose overlay is scripted. The *deployer* is in the broker, or the
coordinator node, that was asked to carry a plan out; there is one of it in every such node, mostly idle. Whoever *asks*
is an application: in the node itself by a request, or a client with the role "admin" by a message of the same meaning.

    application to deployer   CarryOut, AbortPlan, ResumePlan    requests of the node's own application
                              PlanAsked -> PlanAnswered          the same from a client, as JSON
    who looks                 Inspect of the tables "plan", "plan-actions" and "itt" (`pubsub/rows.py`)
    deployer to agents        Engage -> Engaged                  take part in this plan, and in no other
                              ActionOrder -> ActionReported                  carry out this action of it
                              Disengage -> Disengaged            the plan is over
    agents to each other      Prepare -> Prepared           a shift; the rest is routing's (`routing/repairs/shift.py`)

Progress is told by rows and notes, never pushed: `PlanRow` (one row: state, step, actions done, problem), a
`PlannedActionRow` for each action, and `CoordinationRow` for the paths that ZooKeeper would have (/itt/plan/steps/1/2,
/itt/brokers/b1 and its child status). States of a plan: engaging, running, aborting, done, aborted. A plan that is done
or aborted stays on show until the next one. Notes: `PlanExecuted` at the end of a plan that is done, `Shifted` at each
broker of a shift.

Answers to what is asked (`PlanAnswered.problem`, empty where it was taken): a plan that is not sound, brokers that
nobody knows the address of, no right, another plan running (it names plan and deployer), nothing to abort or resume.
That a plan was taken does not say that it is carried out; look at its row.

Everything between brokers is a message of fixed bounds; a plan is JSON, because it is told by people's tools.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tidings.machine.inputs import Request
from tidings.machine.message import Contact, Count, Message, Name, OptionalName, Text
from tidings.model.bounds import ACTION_BROKERS_MAX, PLAN_BYTES_MAX
from tidings.planning.plan import TopologyPlan

# What an application of the node asks.


class CarryOut(Request, frozen=True):
    """Carry this plan out, from today's tree on. `contacts` says where brokers listen that are no peers of this one;
    one whose name is enough (in the simulator) may be left out."""

    plan: TopologyPlan
    contacts: tuple[Contact, ...] = ()
    name: str = ""
    """Under which the plan is known; made up from the broker's name where it is empty."""


class AbortPlan(Request, frozen=True):
    """Begin no further action. What has begun is finished or undone by itself; the network is a tree in any case."""

    reason: str = "asked to"


class ResumePlan(Request, frozen=True):
    """Go on with the plan that was aborted here, from the step in which it was."""


# The same from a client.

Verb = Literal["carry out", "abort", "resume"]


class AskedPlan(msgspec.Struct, frozen=True):
    """What `PlanAsked.plan` holds for "carry out", as JSON."""

    plan: TopologyPlan
    contacts: tuple[Contact, ...] = ()
    name: str = ""


class PlanAsked(Message, frozen=True):
    number: Count
    """Comes back in the answer."""
    verb: Verb
    plan: Annotated[bytes, Meta(max_length=PLAN_BYTES_MAX)] = b""
    """`AskedPlan` as JSON; empty for other verbs."""


class PlanAnswered(Message, frozen=True):
    number: Count
    plan: OptionalName
    """The name of the plan that it is about."""
    problem: Text
    """Why nothing was done; empty where it was taken."""


# Deployer and agents.


class Engage(Message, frozen=True):
    """Take part in this plan, and in no other until it is over."""

    plan: Name


class Engaged(Message, frozen=True):
    plan: Name
    neighbours: Annotated[tuple[Name, ...], Meta(max_length=ACTION_BROKERS_MAX)]
    """Those it has now."""
    problem: Text
    """Why it does not take part; empty where it does."""


class ActionOrder(Message, frozen=True):
    """Carry out this action of the plan, together with the others that take part. Told again it changes nothing."""

    plan: Name
    number: Count
    """Which action of the plan, in the order in which they stand there."""
    operation: Literal["append", "detach", "shift"]
    brokers: Annotated[tuple[Contact, ...], Meta(max_length=3)]


class ActionReported(Message, frozen=True):
    """What became of an action at this broker."""

    plan: Name
    number: Count
    is_done: bool
    problem: Text


class Disengage(Message, frozen=True):
    """The plan is over."""

    plan: Name


class Disengaged(Message, frozen=True):
    plan: Name


# One shift: the broker that moves decides it, alone (`routing/repairs/shift.py`).


class Prepare(Message, frozen=True):
    """From the broker that moves: be ready for the shift that your deployer ordered."""

    shift: Name
    plan: Name
    number: Count


class Prepared(Message, frozen=True):
    shift: Name
    problem: Text
    """Why it is not; empty where it is."""
