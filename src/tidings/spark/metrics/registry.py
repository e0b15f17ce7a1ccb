"""All metrics by name, and all families."""

from tidings.spark.metrics.collection import COLLECTION
from tidings.spark.metrics.congestion import CONGESTION
from tidings.spark.metrics.delivery import CLIENTS, DELIVERY
from tidings.spark.metrics.family import Family, Metric
from tidings.spark.metrics.feeds import FRIENDSHIP, NOISE, STRETCH
from tidings.spark.metrics.guarantees import ACKNOWLEDGEMENT, PREMATURE, TWINS
from tidings.spark.metrics.order import ORDER
from tidings.spark.metrics.plans import PLANS, TRANSFORMATION
from tidings.spark.metrics.popularity import GAIN, POPULARITY
from tidings.spark.metrics.reconfiguration import RECONFIGURATION, REPAIR
from tidings.spark.metrics.recovery import RECOVERY
from tidings.spark.metrics.traffic import DROPS, OVERHEAD, RATES, TRAFFIC
from tidings.spark.metrics.views import VIEWS

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        *(DELIVERY, CLIENTS, ORDER, RECOVERY, CONGESTION),
        *(TRAFFIC, OVERHEAD, DROPS, RATES),
        *(ACKNOWLEDGEMENT, PREMATURE, TWINS),
        *(VIEWS, GAIN, POPULARITY, PLANS, TRANSFORMATION),
        *(RECONFIGURATION, REPAIR),
        *(STRETCH, FRIENDSHIP, NOISE, COLLECTION),
    )
}

METRICS: dict[str, Metric] = {metric.name: metric for family in FAMILIES.values() for metric in family.metrics}
