"""The edge: shows the board to KEDA over gRPC and to people and Prometheus over HTTP."""
