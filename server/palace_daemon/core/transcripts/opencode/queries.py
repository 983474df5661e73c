"""The queries of opencode's database; see :mod:`palace_daemon.core.transcripts.opencode.database`."""

from __future__ import annotations

from palace_daemon.core.transcripts.reading.database_rows import absent, optional, target

TABLES = {
    "session": ("id", "directory", "time_updated"),
    "message": ("id", "session_id", "time_created", "data"),
    "part": ("id", "message_id", "data"),
}
ENTRY_TABLE = {"session_message": ("id", "session_id", "type", "time_created", "data")}
"""Where later builds keep messages: one row each, the parts inside. They may have both, for the same session."""

_OPTIONAL = ("parent_id", "title", "version", "revert")

_SESSION = f"""
SELECT 'session' AS record, s.id, s.directory, {", ".join(f"{optional('session', c, 's.id')} AS {c}" for c in _OPTIONAL)}
FROM session AS s, {absent(*_OPTIONAL)}
WHERE s.id = :id
"""  # noqa: E501

_IS_QUESTION = "json_extract(p.data, '$.tool') = 'question'"

_STATE = f"""json_object(
    'status', json_extract(p.data, '$.state.status'),
    'input', json_object('path', {target("p.data", "$.state.input")}, 'command',
        CASE WHEN json_extract(p.data, '$.tool') = 'bash' THEN json_extract(p.data, '$.state.input.command') END,
        'questions',
        json(CASE WHEN {_IS_QUESTION} THEN json_extract(p.data, '$.state.input.questions') END)),
    'error', CASE WHEN json_extract(p.data, '$.state.error') LIKE 'The user rejected permission%'
        THEN json_extract(p.data, '$.state.error') END,
    'metadata', json_object('answers',
        json(CASE WHEN {_IS_QUESTION} THEN json_extract(p.data, '$.state.metadata.answers') END)),
    'time', json_object('end', json_extract(p.data, '$.state.time.end')))"""

_PART = f"""CASE WHEN NOT json_valid(p.data) THEN 0 ELSE json_object(
    'id', p.id,
    'type', json_extract(p.data, '$.type'),
    'text', CASE WHEN json_extract(p.data, '$.type') = 'text' THEN json_extract(p.data, '$.text') END,
    'synthetic', json_extract(p.data, '$.synthetic'),
    'ignored', json_extract(p.data, '$.ignored'),
    'mime', json_extract(p.data, '$.mime'),
    'filename', json_extract(p.data, '$.filename'),
    'tool', json_extract(p.data, '$.tool'),
    'callID', json_extract(p.data, '$.callID'),
    'state', json(CASE WHEN json_extract(p.data, '$.type') = 'tool' THEN {_STATE} END)) END"""

_TRUTH = "json(CASE WHEN json_type(m.data, '{0}') = 'true' THEN 'true' ELSE 'false' END)"

_MESSAGE = f"""CASE WHEN json_valid(m.data) THEN json_object(
    'id', m.id,
    'role', json_extract(m.data, '$.role'),
    'time', json_object('created', coalesce(json_extract(m.data, '$.time.created'), m.time_created),
        'completed', json_extract(m.data, '$.time.completed')),
    'summary', {_TRUTH.format("$.summary")},
    'mode', coalesce(json_extract(m.data, '$.mode'), json_extract(m.data, '$.agent')),
    'modelID', coalesce(json_extract(m.data, '$.modelID'), json_extract(m.data, '$.model.modelID')),
    'path', json_object('cwd', json_extract(m.data, '$.path.cwd')),
    'finish', json_extract(m.data, '$.finish'),
    'error', json(CASE WHEN json_type(m.data, '$.error') = 'object' THEN
        json_object('name', json_extract(m.data, '$.error.name')) END)) END"""

_MESSAGES = f"""
SELECT 'message' AS record, m.id AS id, NULL AS type, m.time_created AS made, {_MESSAGE} AS message,
    (SELECT json_group_array(json(piece)) FROM
        (SELECT {_PART} AS piece FROM part AS p WHERE p.message_id = m.id ORDER BY p.id)) AS parts
FROM message AS m
WHERE m.session_id = :id
"""

_CONTENT = f"""json_object(
    'id', json_extract(p.value, '$.id'),
    'type', json_extract(p.value, '$.type'),
    'text', CASE WHEN json_extract(p.value, '$.type') = 'text' THEN json_extract(p.value, '$.text') END,
    'tool', json_extract(p.value, '$.name'),
    'state', json(CASE WHEN json_extract(p.value, '$.type') = 'tool' THEN
        json_object('input', json_object('path', {target("p.value", "$.state.input", "$.input")})) END))"""

_ENTRY = """CASE WHEN json_valid(m.data) THEN json_object(
    'id', m.id,
    'role', m.type,
    'time', json_object('created', coalesce(json_extract(m.data, '$.time.created'), m.time_created),
        'completed', json_extract(m.data, '$.time.completed')),
    'text', CASE WHEN m.type = 'user' THEN json_extract(m.data, '$.text') END,
    'command', CASE WHEN m.type = 'shell' THEN json_extract(m.data, '$.command') END,
    'mode', json_extract(m.data, '$.agent'),
    'modelID', json_extract(m.data, '$.model.id'),
    'finish', json_extract(m.data, '$.finish'),
    'error', json(CASE WHEN json_type(m.data, '$.error') = 'object' THEN
        json_object('name', coalesce(json_extract(m.data, '$.error.name'), json_extract(m.data, '$.error.type')))
    END)) END"""

# An entry can repeat a message under its own id, or (where its id is an event's) under another one.
_ENTRIES = f"""
SELECT 'entry' AS record, m.id AS id, m.type AS type, m.time_created AS made, {_ENTRY} AS message,
    CASE WHEN NOT json_valid(m.data) THEN NULL
    WHEN m.type = 'assistant' AND json_type(m.data, '$.content') = 'array' THEN
        (SELECT json_group_array(json(CASE WHEN p.type = 'object' THEN {_CONTENT} ELSE '0' END))
        FROM json_each(m.data, '$.content') AS p)
    WHEN m.type = 'user' AND json_type(m.data, '$.files') = 'array' THEN
        (SELECT json_group_array(json(CASE WHEN f.type = 'object' THEN json_object('type', 'file',
            'mime', json_extract(f.value, '$.mime'), 'filename', json_extract(f.value, '$.name')) ELSE '0' END))
        FROM json_each(m.data, '$.files') AS f)
    END AS parts
FROM session_message AS m
WHERE m.session_id = :id
    AND NOT EXISTS (SELECT 1 FROM message AS o WHERE o.id = m.id)
    AND NOT (m.id LIKE 'evt%' AND EXISTS (SELECT 1 FROM message AS o WHERE o.session_id = :id))
"""

RECORDS = f"{_SESSION}\n;\nSELECT * FROM ({_MESSAGES}) ORDER BY made, id"
RECORDS_WITH_ENTRIES = f"{_SESSION}\n;\nSELECT * FROM ({_MESSAGES} UNION ALL {_ENTRIES}) ORDER BY made, id"

# Rows are updated in place while a reply streams, the newest message's parts among them.
_CHANGES = """
    || '|' || (SELECT count(*) FROM message AS m WHERE m.session_id = s.id)
    || '|' || coalesce(
        (SELECT max(u) FROM (SELECT time_updated AS u FROM message WHERE session_id = s.id)), '')
    || '|' || (SELECT count(*) FROM part AS p WHERE p.message_id = last)
    || '|' || coalesce(
        (SELECT max(u) FROM (SELECT time_updated AS u FROM part WHERE message_id = last)), '')
"""
_ENTRY_CHANGES = """
    || '|' || (SELECT count(*) FROM session_message AS m WHERE m.session_id = s.id)
    || '|' || coalesce(
        (SELECT max(u) FROM (SELECT time_updated AS u FROM session_message WHERE session_id = s.id)), '')
"""
_LIST = """
SELECT s.id AS id, s.time_updated {changes} AS stamp
FROM (SELECT id, time_updated,
    (SELECT m.id FROM message AS m WHERE m.session_id = session.id ORDER BY m.time_created DESC, m.id DESC LIMIT 1)
    AS last FROM session) AS s
"""

CONVERSATIONS = _LIST.format(changes=_CHANGES)
CONVERSATIONS_WITH_ENTRIES = _LIST.format(changes=_CHANGES + _ENTRY_CHANGES)
