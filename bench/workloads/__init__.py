"""What is measured. A workload is a module with `measurements(quick) -> Iterator[Measurement]`."""
