"""Turns texts into vectors: the only place that imports onnxruntime, onnx and tokenizers.

Invariant: importing this package costs nothing; each module imports its runtime when it is first needed.
Invariant: a text's vector depends on the text and the model alone, never on batch, order or threads.
Invariant: no text is truncated unless the caller asks for it, and then it is counted.
Invariant: nothing is told to anybody: the runtime's telemetry is off.

:mod:`.registry` knows the models, :mod:`.install` builds them, :mod:`.minilm` runs them, :mod:`.tokens` counts tokens
without any of them, :mod:`.hashing` stands in for them in tests of other layers.
"""

import os

# ONNX Runtime 1.32 makes a device id and a database of events for its maker in the user's cache as soon as it is
# imported. Its own disable_telemetry_events() comes too late for that; this is read at the import.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
