CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
INSERT INTO ItemTable VALUES ('cursorAuth/accessToken', 'not-to-be-read');
INSERT INTO cursorDiskKV VALUES ('composerData:5e551000-0000-4000-8000-000000000301', '{"_v":10,"name":"Buoy names","createdAt":1770026400000,"lastUpdatedAt":1770026460000,"status":"completed","workspaceIdentifier":{"id":"w","uri":{"fsPath":"/home/sam/harbour"}},"fullConversationHeadersOnly":[{"bubbleId":"u1","type":1},{"bubbleId":"a1","type":2},{"bubbleId":"a2","type":2},{"bubbleId":"u2","type":1},{"bubbleId":"a3","type":2}]}');
INSERT INTO cursorDiskKV VALUES ('bubbleId:5e551000-0000-4000-8000-000000000301:u1', '{"bubbleId":"u1","type":1,"text":"Name the buoys after birds","createdAt":"2026-02-02T10:00:00.000Z"}');
INSERT INTO cursorDiskKV VALUES ('bubbleId:5e551000-0000-4000-8000-000000000301:a1', '{"bubbleId":"a1","type":2,"text":"I look at the chart first.","createdAt":"2026-02-02T10:00:05.000Z","modelInfo":{"modelName":"made-up-1"}}');
INSERT INTO cursorDiskKV VALUES ('bubbleId:5e551000-0000-4000-8000-000000000301:a2', '{"bubbleId":"a2","type":2,"text":"","toolFormerData":{"name":"edit_file","toolCallId":"c1","rawArgs":"{\"target_file\": \"buoys.csv\"}","result":"done"}}');
INSERT INTO cursorDiskKV VALUES ('bubbleId:5e551000-0000-4000-8000-000000000301:u2', '{"bubbleId":"u2","type":1,"text":"Keep the old names in a column","createdAt":"2026-02-02T10:01:00.000Z"}');
INSERT INTO cursorDiskKV VALUES ('bubbleId:5e551000-0000-4000-8000-000000000301:a3', '{"bubbleId":"a3","type":2,"text":"There is a column for them now."}');
