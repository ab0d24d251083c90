"""TensorFlow as the tests here compare with it."""

from lowered_control_flow import lowered_control_flow  # noqa: F401 - a fixture
