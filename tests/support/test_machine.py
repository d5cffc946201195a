from workbench.support.machine import machine, processor


def test_the_machine_is_its_processor_and_cores():
    assert processor()
    assert machine().startswith(processor())
    assert machine().endswith(" cores")
