"""Protobuf and gRPC code generated from `protos/`; `make protos` writes it, nobody edits it."""
