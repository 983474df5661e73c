"""Turns texts into vectors: the only place that imports onnxruntime, onnx and tokenizers.

Invariant: importing this package costs nothing; each module imports its runtime when it is first needed.
Invariant: a text's vector depends on the text and the model alone, never on batch, order or threads.
Invariant: no text is truncated unless the caller asks for it, and then it is counted.

:mod:`.registry` knows the models, :mod:`.install` builds them, :mod:`.minilm` runs them, :mod:`.tokens` counts tokens
without any of them, :mod:`.hashing` stands in for them in tests of other layers.
"""
