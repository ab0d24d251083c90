"""`import tensorflow` with the embedded engine in its place."""

import importlib
import sys

import pytest

import stepscope.tf1
from stepscope.graph.registry import coverage_page
from stepscope.tf1 import shim


@pytest.fixture
def installed():
    with shim.installed():
        yield


@pytest.mark.usefixtures("installed")
class TestInstalled:
    def test_the_spellings_programs_use(self):
        import tensorflow as tf
        import tensorflow.compat.v1 as v1
        from tensorflow.python.client import timeline

        assert tf.Session is stepscope.tf1.Session
        assert v1.Session is tf.Session
        assert tf.compat.v1.RunOptions is tf.RunOptions
        assert timeline.Timeline is stepscope.tf1.timeline.Timeline
        assert tf.python.client.timeline.Timeline is timeline.Timeline

    def test_message_modules(self):
        from tensorflow.core.framework import graph_pb2, step_stats_pb2
        from tensorflow.core.protobuf import config_pb2

        assert config_pb2.RunOptions is stepscope.tf1.RunOptions
        assert config_pb2.RunMetadata is stepscope.tf1.RunMetadata
        assert graph_pb2.GraphDef is stepscope.tf1.GraphDef
        assert step_stats_pb2.StepStats.DESCRIPTOR.full_name.endswith(".StepStats")

    def test_framework_modules(self):
        from tensorflow.python.framework import dtypes, errors, errors_impl, ops, tensor_shape

        assert ops.get_default_graph is stepscope.tf1.get_default_graph
        assert dtypes.float32 is stepscope.tf1.float32
        assert errors.OpError is errors_impl.OpError is stepscope.tf1.errors.OpError
        assert tensor_shape.TensorShape is stepscope.tf1.TensorShape

    def test_modules_have_the_names_they_were_asked_for(self):
        import tensorflow.python.client.timeline as timeline

        assert timeline.__name__ == "tensorflow.python.client.timeline"
        assert timeline.__spec__.name == "tensorflow.python.client.timeline"
        assert importlib.import_module("tensorflow.nn").relu is stepscope.tf1.nn.relu

    def test_a_missing_attribute_names_what_is_close(self):
        import tensorflow as tf

        with pytest.raises(AttributeError) as caught:
            tf.placeholdr  # noqa: B018
        assert str(caught.value) == (
            "module 'tensorflow' (Stepscope's embedded engine) has no attribute 'placeholdr'; "
            f"close: placeholder. {coverage_page()} lists the names that are there"
        )

    @pytest.mark.parametrize(
        ("name", "instead"),
        [
            ("function", r"run it in a tf\.Session"),
            ("GradientTape", r"use tf\.gradients"),
            ("keras", r"use tf\.layers"),
        ],
    )
    def test_names_of_tensorflow_2_say_what_to_use(self, name, instead):
        import tensorflow as tf

        with pytest.raises(AttributeError, match=rf"'{name}'; .*{instead}"):
            getattr(tf, name)

    def test_a_missing_attribute_that_is_elsewhere_says_where(self):
        import tensorflow as tf

        with pytest.raises(AttributeError, match=r"close: .*tensorflow\.nn\.softmax\b"):
            tf.softmax  # noqa: B018

    def test_a_missing_attribute_of_a_submodule(self):
        import tensorflow as tf

        with pytest.raises(AttributeError, match=r"module 'tensorflow\.nn' .*'relu7'; close: relu"):
            tf.nn.relu7  # noqa: B018

    def test_nothing_close(self):
        import tensorflow as tf

        with pytest.raises(AttributeError, match="'qqqqqq'; nothing it has is close"):
            tf.qqqqqq  # noqa: B018

    @pytest.mark.parametrize("name", ["extract_volume_patches", "one_hott", "unravel_index"])
    def test_what_is_called_close_may_be_a_slip_of_the_keys(self, name):
        import tensorflow as tf

        with pytest.raises(AttributeError) as caught:
            getattr(tf, name)
        said = str(caught.value)
        if name == "one_hott":
            assert "close: one_hot. " in said
        else:
            assert "nothing it has is close" in said
            assert "`stepscope run --engine tensorflow` runs the program on it" in said

    def test_a_missing_module(self):
        with pytest.raises(ModuleNotFoundError) as caught:
            import tensorflow.python.client.timelime  # noqa: F401
        assert "'tensorflow.python.client.timelime'" in str(caught.value)
        assert "close: timeline" in str(caught.value)

    def test_a_missing_name_in_a_from_import(self):
        with pytest.raises(ImportError, match="'tensorflow' has no 'Sesion'; close: Session"):
            from tensorflow import Sesion  # noqa: F401

    @pytest.mark.parametrize(
        "statement",
        [
            "from tensorflow.contrib.layers import batch_nrm",
            "from tensorflow.nn import batch_nrm",
            "from tensorflow.train import batch_nrm as b",
            "from tensorflow.python.client.timeline import batch_nrm",
            "from tensorflow.core.framework.graph_pb2 import batch_nrm",
            "import tensorflow.nn.batch_nrm",
        ],
    )
    def test_a_missing_name_in_a_from_import_of_any_module(self, statement):
        with pytest.raises(ImportError, match=r"Stepscope's embedded engine: .*'batch_nrm'"):
            exec(statement)

    def test_names_of_any_module_are_imported(self):
        from tensorflow.contrib.layers import fully_connected
        from tensorflow.nn import relu

        assert relu is stepscope.tf1.nn.relu
        assert fully_connected is stepscope.tf1.contrib.layers.fully_connected

    def test_what_is_private_to_stepscope_stays_so(self):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("tensorflow.shim")

    def test_asking_whether_an_attribute_is_there(self):
        import tensorflow as tf

        assert hasattr(tf, "Session")
        assert not hasattr(tf, "keras")
        assert tf.__version__.startswith("1.15.")


@pytest.mark.tensorflow
@pytest.mark.usefixtures("tf")
def test_the_real_tensorflow_comes_back():
    real = sys.modules["tensorflow"]
    with shim.installed():
        import tensorflow

        assert tensorflow.Session is stepscope.tf1.Session
    import tensorflow

    assert tensorflow is real
    assert not any(isinstance(finder, shim._Finder) for finder in sys.meta_path)


def test_installing_twice_is_installing_once():
    with shim.installed():
        shim.install()
        with shim.installed():
            pass
        import tensorflow

        assert tensorflow.Session is stepscope.tf1.Session
    assert sum(isinstance(finder, shim._Finder) for finder in sys.meta_path) == 0
