"""The demo: emulated engines over HTTP, a scripted load, and a stand-in for KEDA and the HPA."""
