"""Writes the reference page of the metadata keys: `python -m scaler.config.reference FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from scaler.config.keys import metadata_table

_PAGE = """# Trigger metadata

<!-- Written by python -m scaler.config.reference docs/reference; edits are lost. -->

The keys of a ScaledObject's `triggers[].metadata`. All values are text, so quote numbers.

{table}
- A duration is `90` (seconds), `500ms`, `2.5s`, `10m` or `1h30m`. A fraction is `0.85`, never `85`.
- In each pair Low is below High. Who gives one of a pair is held to the other's default.
- `fooFromEnv` is read as `foo`: KEDA takes its value from the environment of the scale target's
  container. Such a value is never shown in a message.
- KEDA's own keys (`scalerAddress`, `enableTLS`, `unsafeSsl`) are ignored. `caCert`,
  `tlsClientCert` and `tlsClientKey` belong into a TriggerAuthentication.
- A trigger selects its series by `modelName`, `selector` or both.
- An unknown key is an error that names the nearest known one, and all faults of a trigger are
  told together. A trigger has at most 64 keys and 16,384 characters.
- Queries and keys that measure CPU, SM or GPU utilisation are refused: one request keeps a GPU as
  busy as a hundred, and neither the queue nor the KV cache shows in it.
"""


def metadata_page() -> str:
    """Return the page."""
    return _PAGE.format(table=metadata_table())


if __name__ == "__main__":
    (Path(sys.argv[1]) / "metadata.md").write_text(metadata_page(), encoding="utf-8")
