"""The queries of Cursor's key-value store; see :mod:`palace_daemon.core.transcripts.cursor.database`.

Invariant: only keys that begin with ``composerData:`` or ``bubbleId:`` are looked at, and only named fields of their
values: others beside them are tokens and keys.
"""

from __future__ import annotations

from palace_daemon.core.transcripts.reading.database_rows import target

_COMPOSERS = "composerData:"
_ID_START = len(_COMPOSERS) + 1

_DOCUMENT = f"(SELECT CAST(value AS TEXT) AS v FROM cursorDiskKV WHERE key = '{_COMPOSERS}' || :id)"

# Once there is a list of headers, even an empty one, it alone tells what belongs to the conversation.
_HAS_HEADERS = "coalesce(json_type(v, '$.fullConversationHeadersOnly'), 'null') <> 'null'"

_COMPOSER = f"""
SELECT 'composer' AS record, :id AS id,
    json_extract(v, '$.name') AS name,
    json_extract(v, '$.createdAt') AS created,
    json_extract(v, '$.modelConfig.modelName') AS model,
    json_extract(v, '$.subagentInfo.parentComposerId') AS parent,
    coalesce(json_extract(v, '$.workspaceIdentifier.uri.fsPath'), json_extract(v, '$.workspaceIdentifier.uri.path'),
        json_extract(v, '$.workspaceIdentifier.uri')) AS workspace
FROM {_DOCUMENT} WHERE json_valid(v)
UNION ALL
SELECT 'malformed', :id, NULL, NULL, NULL, NULL, NULL FROM {_DOCUMENT} WHERE v IS NOT NULL AND NOT json_valid(v)
"""

_ARGUMENTS = """CASE
    WHEN json_valid(json_extract(d, '$.toolFormerData.rawArgs')) THEN json_extract(d, '$.toolFormerData.rawArgs')
    WHEN json_valid(json_extract(d, '$.toolFormerData.params')) THEN json_extract(d, '$.toolFormerData.params') END"""

_FIELDS = f"""
    coalesce(json_extract(d, '$.type'), header_type) AS type,
    json_extract(d, '$.text') AS text,
    json_extract(d, '$.rawText') AS raw_text,
    CASE WHEN coalesce(json_extract(d, '$.text'), '') = '' THEN json_extract(d, '$.richText') END AS rich_text,
    json_extract(d, '$.createdAt') AS created,
    json_extract(d, '$.modelInfo.modelName') AS model,
    json_extract(d, '$.workspaceUris[0]') AS workspace,
    json_array_length(d, '$.images') AS images,
    json_extract(d, '$.toolFormerData.name') AS tool,
    json_extract(d, '$.toolFormerData.toolCallId') AS call_id,
    {target("arguments", "$")} AS target,
    json_type(d, '$.thinking') IS NOT NULL OR json_type(d, '$.isThought') = 'true' AS is_thinking
"""

_BUBBLES = f"""
SELECT CASE WHEN raw IS NULL THEN 'missing' WHEN d IS NULL THEN 'malformed' ELSE 'bubble' END AS record, id, {_FIELDS}
FROM (SELECT *, {_ARGUMENTS} AS arguments FROM
    (SELECT id, place, header_type, raw, CASE WHEN json_valid(raw) THEN raw END AS d FROM
        (SELECT h.id AS id, h.place AS place, h.header_type AS header_type, CAST(b.value AS TEXT) AS raw FROM
            (SELECT e.key AS place, CASE WHEN e.type = 'object' THEN json_extract(e.value, '$.bubbleId') END AS id,
                CASE WHEN e.type = 'object' THEN json_extract(e.value, '$.type') END AS header_type
            FROM {_DOCUMENT} AS c, json_each(CASE WHEN json_valid(v) THEN v ELSE '{{}}' END,
                '$.fullConversationHeadersOnly') AS e) AS h
        LEFT JOIN cursorDiskKV AS b ON b.key = 'bubbleId:' || :id || ':' || h.id)))
ORDER BY place
"""

_INLINE = f"""
SELECT CASE WHEN d IS NULL THEN 'malformed' ELSE 'bubble' END AS record, json_extract(d, '$.bubbleId') AS id, {_FIELDS}
FROM (SELECT *, {_ARGUMENTS} AS arguments FROM
    (SELECT e.key AS place, NULL AS header_type, CASE WHEN e.type = 'object' THEN e.value END AS d
    FROM {_DOCUMENT} AS c, json_each(CASE WHEN json_valid(v) AND NOT {_HAS_HEADERS} THEN v ELSE '{{}}' END,
        '$.conversation') AS e))
ORDER BY place
"""

_END = f"SELECT 'end' AS record, :id AS id, json_extract(v, '$.status') AS status FROM {_DOCUMENT} WHERE json_valid(v)"

RECORDS = f"{_COMPOSER}\n;\n{_BUBBLES}\n;\n{_INLINE}\n;\n{_END}"

# A row that is written again gets a new row number, so that the highest one under a conversation's keys tells of every
# change. It stands in the index of the keys: no value is read for it, of gigabytes of them.
CONVERSATIONS = f"""
SELECT id, coalesce(CASE WHEN is_json THEN json_extract(v, '$.lastUpdatedAt') END,
        CASE WHEN is_json THEN json_extract(v, '$.createdAt') END, '')
    || '|' || place || '|' || length(v) || '|' || coalesce(CASE WHEN is_json THEN json_extract(v, '$.status') END, '')
    || '|' || (SELECT count(*) || '|' || coalesce(max(b.rowid), 0) FROM cursorDiskKV AS b
        WHERE b.key > 'bubbleId:' || c.id || ':' AND b.key < 'bubbleId:' || c.id || ';') AS stamp
FROM (SELECT substr(key, {_ID_START}) AS id, rowid AS place, CAST(value AS TEXT) AS v, json_valid(CAST(value AS TEXT))
        AS is_json
    FROM cursorDiskKV WHERE key > '{_COMPOSERS}' AND key < 'composerData;' AND value IS NOT NULL) AS c
WHERE NOT is_json OR CASE WHEN is_json THEN
    coalesce(CASE WHEN {_HAS_HEADERS} THEN json_array_length(v, '$.fullConversationHeadersOnly')
        ELSE json_array_length(v, '$.conversation') END, 0) > 0 END
"""
