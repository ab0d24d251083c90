"""TensorFlow 1's names over the embedded engine: `import stepscope.tf1 as tf`.

Names only. Each is what TensorFlow 1 calls it, and is defined in the room it belongs to. A name
that is not here is an `AttributeError` that lists what is close.
"""

from importlib import import_module

from stepscope._messages import (
    AttrValue,
    Event,
    GraphDef,
    HistogramProto,
    MetaGraphDef,
    NameAttrList,
    NodeDef,
    SessionLog,
    Summary,
    SummaryMetadata,
)
from stepscope.graph import (
    DeviceSpec,
    Dimension,
    Graph,
    GraphKeys,
    Operation,
    Tensor,
    TensorShape,
    add_to_collection,
    colocate_with,
    control_dependencies,
    convert_to_tensor,
    device,
    get_collection,
    get_collection_ref,
    get_default_graph,
    get_default_session,
    import_graph_def,
    name_scope,
    reset_default_graph,
)
from stepscope.graph.constants import constant_value as get_static_value
from stepscope.graph.indexed_slices import IndexedSlices
from stepscope.graph.shapes import dimension_value
from stepscope.graph.tensor_proto import make_ndarray
from stepscope.metadata import RunMetadata
from stepscope.options import (
    ConfigProto,
    GPUOptions,
    GraphOptions,
    OptimizerOptions,
    RunOptions,
    ThreadPoolOptionProto,
)
from stepscope.runtime import InteractiveSession, Session
from stepscope.tf1 import (
    compat,
    contrib,
    data,
    dtypes,
    errors,
    estimator,
    flags,
    logging,
    math,
    nn,
    operations,
    paths,
    random,
    summary,
    test,
    train,
    version,
)
from stepscope.tf1._absent import absent
from stepscope.tf1.dtypes import (
    DType,
    as_dtype,
    bool,
    complex64,
    complex128,
    double,
    float16,
    float32,
    float64,
    half,
    int8,
    int16,
    int32,
    int64,
    resource,
    string,
    uint8,
    uint16,
    uint32,
    uint64,
    variant,
)
from stepscope.tf1.errors import OpError
from stepscope.tf1.modes import (
    disable_eager_execution,
    disable_v2_behavior,
    enable_eager_execution,
    enable_v2_behavior,
    executing_eagerly,
)
from stepscope.tf1.operations import *  # noqa: F403

paths.install()
# Modules of a table: `names` and `paths`.
app = import_module(f"{__name__}.app")
bitwise = import_module(f"{__name__}.bitwise")
debugging = import_module(f"{__name__}.debugging")
gfile = import_module(f"{__name__}.gfile")
image = import_module(f"{__name__}.image")
initializers = import_module(f"{__name__}.initializers")
io = import_module(f"{__name__}.io")
import_module(f"{__name__}.io.gfile")
layers = import_module(f"{__name__}.layers")
linalg = import_module(f"{__name__}.linalg")
lookup = import_module(f"{__name__}.lookup")
import_module(f"{__name__}.lookup.experimental")
losses = import_module(f"{__name__}.losses")
metrics = import_module(f"{__name__}.metrics")
profiler = import_module(f"{__name__}.profiler")
nest = import_module(f"{__name__}.nest")
python_io = import_module(f"{__name__}.python_io")
queue = import_module(f"{__name__}.queue")
sparse = import_module(f"{__name__}.sparse")
strings = import_module(f"{__name__}.strings")
timeline = import_module(f"{__name__}.timeline")
core = import_module(f"{__name__}.core")
examples = import_module(f"{__name__}.examples")
python = import_module(f"{__name__}.python")

newaxis = None

__version__ = version.VERSION
VERSION = __version__

__all__ = [
    "VERSION",
    "AttrValue",
    "ConfigProto",
    "DType",
    "DeviceSpec",
    "Dimension",
    "Event",
    "GPUOptions",
    "Graph",
    "GraphDef",
    "GraphKeys",
    "GraphOptions",
    "HistogramProto",
    "IndexedSlices",
    "InteractiveSession",
    "MetaGraphDef",
    "NameAttrList",
    "NodeDef",
    "OpError",
    "Operation",
    "OptimizerOptions",
    "RunMetadata",
    "RunOptions",
    "Session",
    "SessionLog",
    "Summary",
    "SummaryMetadata",
    "Tensor",
    "TensorShape",
    "ThreadPoolOptionProto",
    "__version__",
    "add_to_collection",
    "app",
    "as_dtype",
    "bitwise",
    "bool",
    "colocate_with",
    "compat",
    "complex64",
    "complex128",
    "contrib",
    "control_dependencies",
    "convert_to_tensor",
    "core",
    "data",
    "debugging",
    "device",
    "dimension_value",
    "disable_eager_execution",
    "disable_v2_behavior",
    "double",
    "dtypes",
    "enable_eager_execution",
    "enable_v2_behavior",
    "errors",
    "estimator",
    "examples",
    "executing_eagerly",
    "flags",
    "float16",
    "float32",
    "float64",
    "get_collection",
    "get_collection_ref",
    "get_default_graph",
    "get_default_session",
    "get_static_value",
    "gfile",
    "half",
    "image",
    "import_graph_def",
    "initializers",
    "int8",
    "int16",
    "int32",
    "int64",
    "io",
    "layers",
    "linalg",
    "logging",
    "lookup",
    "losses",
    "make_ndarray",
    "math",
    "metrics",
    "name_scope",
    "nest",
    "newaxis",
    "nn",
    "profiler",
    "python",
    "python_io",
    "queue",
    "random",
    "reset_default_graph",
    "resource",
    "sparse",
    "string",
    "strings",
    "summary",
    "test",
    "timeline",
    "train",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "variant",
    "version",
]  # fmt: skip
__all__ += operations.__all__

__getattr__ = absent(__name__)
