"""Updates, batches, spines and group tables: the state of the dataflow. Knows no operators."""
