import assert from "node:assert/strict";
import { syncBuiltinESMExports } from "node:module";
import os from "node:os";
import { describe, mock, test } from "node:test";

import * as places from "../../src/core/places";

describe("files of the daemon", () => {
  test("are found in a container whose user has a number and no name", () => {
    const named = mock.method(os, "userInfo", () => {
      throw new Error("uv_os_get_passwd returned ENOENT");
    });
    syncBuiltinESMExports();
    try {
      const socket = places.socketPath("/data", { HOME: "/home/somebody", TMPDIR: "/tmp" });
      assert.ok(socket.startsWith(`/tmp/palace-${process.getuid?.() ?? ""}/`), socket);
    } finally {
      named.mock.restore();
      syncBuiltinESMExports();
    }
  });
});
