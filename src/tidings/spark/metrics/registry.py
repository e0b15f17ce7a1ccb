"""All metrics by name, and all families."""

from tidings.spark.metrics.changes import PLANS, RECONFIGURATION, REPAIR, TRANSFORMATION
from tidings.spark.metrics.delivery import CLIENTS, DELIVERY
from tidings.spark.metrics.family import Family, Metric
from tidings.spark.metrics.gossip import GAIN, POPULARITY, VIEWS
from tidings.spark.metrics.guarantees import ACKNOWLEDGEMENT, PREMATURE, TWINS
from tidings.spark.metrics.peers import COLLECTION, FRIENDSHIP, NOISE, STRETCH
from tidings.spark.metrics.traffic import DROPS, OVERHEAD, RATES, TRAFFIC
from tidings.spark.metrics.transport import CONGESTION, NUMBERS, ORDER, RECOVERY

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        *(DELIVERY, CLIENTS, ORDER, NUMBERS, RECOVERY, CONGESTION),
        *(TRAFFIC, OVERHEAD, DROPS, RATES),
        *(ACKNOWLEDGEMENT, PREMATURE, TWINS),
        *(VIEWS, GAIN, POPULARITY, PLANS, TRANSFORMATION),
        *(RECONFIGURATION, REPAIR),
        *(STRETCH, FRIENDSHIP, NOISE, COLLECTION),
    )
}

METRICS: dict[str, Metric] = {metric.name: metric for family in FAMILIES.values() for metric in family.metrics}
