"""The format "tidings", as Spark sees it.

    spark = open_session()                                             # knows the format already
    spark.dataSource.register(TidingsSource)                           # any other session

    spark.readStream.format("tidings").option("url", "tidings://localhost").option("filter", "price > 100").load()
    spark.read.format("tidings").option("url", ...).schema("symbol string, price double").load().where("price > 100")
    rows.writeStream.format("tidings").option("url", ...).option("checkpointLocation", ...).start()

Spark makes one of these in a process of its own, asks for the schema if none was given (which asks a broker for what is
advertised), and sends it on, pickled, to wherever readers and writers are made. Options are read and checked at once,
so that a mistake is reported by `load` and not by the first task.
"""

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from tidings.model.errors import UsageError
from tidings.spark.live.columns import infer_schema
from tidings.spark.live.connection import LiveConnection, read_options
from tidings.spark.live.readers import TidingsReader, TidingsStreamReader
from tidings.spark.live.sink import TidingsStreamWriter, TidingsWriter

FORMAT = "tidings"


class TidingsSource(DataSource):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.said = read_options(options)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        with LiveConnection(self.said) as link:
            return infer_schema(link.run(link.client.marks(self.said.filter)).offers)

    def reader(self, schema: StructType) -> TidingsReader:
        return TidingsReader(schema, self.said)

    def streamReader(self, schema: StructType) -> TidingsStreamReader:
        return TidingsStreamReader(schema, self.said)

    def writer(self, schema: StructType, overwrite: bool) -> TidingsWriter:
        if overwrite:
            raise UsageError('mode "overwrite": what was published cannot be taken back; write with mode("append")')
        return TidingsWriter(schema, self.said)

    def streamWriter(self, schema: StructType, overwrite: bool) -> TidingsStreamWriter:
        return TidingsStreamWriter(schema, self.said)
