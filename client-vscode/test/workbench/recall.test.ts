import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";

import { askedLine, turns } from "../../src/core/rows.ts";
import { plainLabel } from "../../src/core/wording.ts";
import { CodeServer } from "./support/codeServer.ts";
import { until } from "./support/waiting.ts";
import { WireTap } from "./support/wireTap.ts";
import type { Row, Workbench } from "./support/workbench.ts";

const QUESTION = "why is the database locked at night";
/** As many characters as labels of the palette certainly keep. */
const LABEL_START = 30;

interface Hit {
  readonly text: string;
  readonly path: string;
  readonly lineStart: number;
  readonly exchangeId: string;
}

let server: CodeServer;
let tap: WireTap;
let window: Workbench;

before(async () => {
  server = await CodeServer.start("recall");
  tap = await WireTap.start(server.world);
  window = await server.open();
  await window.untilStatus(/^\d+\b/);
});

afterEach(() => {
  tap.release(); // what a failed scenario holds would fail the next ones
});

after(async () => {
  await server.end();
  await tap.end();
});

/** What the command line finds, in its order. */
async function found(question: string, limit = 20): Promise<Hit[]> {
  const answer = JSON.parse(await server.world.palace("recall", "--json", "--limit", String(limit), question)) as { hits: Hit[] };
  return answer.hits;
}

/** How the label of a hit's row begins. */
function labelStart(hit: Hit): string {
  return plainLabel(askedLine(turns(hit.text).asked, 200)).slice(0, LABEL_START);
}

function hits(rows: readonly Row[]): Row[] {
  return rows.filter((row) => row.label !== "");
}

/** Opens Recall and types; returns the rows once they are those of the last question. */
async function ask(question: string): Promise<Row[]> {
  await window.command("Palace: Recall…");
  await window.input.fill(question);
  const [best] = await found(question);
  assert.ok(best);
  return await until(`the best hit for ${question} stands first`, async () => {
    const rows = hits(await window.rows());
    const { isBusy } = await window.quickInputState();
    return !isBusy && rows[0]?.label.startsWith(labelStart(best)) ? rows : undefined;
  }, { seen: () => window.rows() });
}

test("Recall lists what the daemon finds in the daemon's order, and Enter opens the exchange, read-only", async () => {
  await server.scenario("search-and-open", async () => {
    await window.page.keyboard.press("Control+K");
    await window.page.keyboard.press("h");
    await until("the keys open Recall", async () => (await window.quickInputState()).title.startsWith("Recall"));
    await until("the newest are listed before anything is typed", async () => hits(await window.rows()).length > 3);
    await window.screenshot("recall-newest");

    const rows = await ask(QUESTION);
    const expected = (await found(QUESTION)).map(labelStart);
    const shown = rows.map((row) => row.label.slice(0, LABEL_START));
    assert.ok(shown.length >= 5, `only ${shown.length} rows are in sight`);
    assert.deepEqual(shown, expected.slice(0, shown.length).map((start, index) => start.slice(0, shown[index]?.length)));
    assert.match(rows[0]?.description ?? "", /tidepool · Claude Code/);
    assert.match(rows[0]?.detail ?? "", /\S/);
    await window.row(2).hover();
    await window.screenshot("recall-results");

    await window.page.keyboard.press("Enter");
    const [best] = await found(QUESTION);
    assert.ok(best);
    await until("the exchange is open", async () => (await window.editorText()).includes("## Asked"), { seen: () => window.editorText() });
    const text = await window.editorText();
    assert.match(text, /Agent: Claude Code/);
    assert.match(text, /database is locked/);
    await window.screenshot("exchange");
    await window.page.keyboard.type("x");
    await until("the editor refuses to change it", async () => /read-only|readonly/i.test(await window.page.locator(".monaco-editor-overlaymessage").innerText()));
    assert.ok((await window.editorText()).startsWith("# "), "it was changed all the same"); // the cursor is at the beginning

    await window.command("Palace: Open Transcript at This Line").catch(() => window.page.locator(`.editor-actions [aria-label^="Open Transcript"]`).click());
    const file = best.path.split("/").at(-1) ?? "";
    await until("the transcript is open", async () => (await window.tabs())[0] === file, { seen: () => window.tabs() });
    await until("the cursor is at the exchange", async () => (await window.cursor()).startsWith(`Ln ${best.lineStart}, Col 1`), { seen: () => window.cursor() });
    await window.screenshot("transcript");
  });
});

test("fast typing asks the whole question last, withdraws questions that are overtaken, and shows the last one's answer only", async () => {
  await server.scenario("fast-typing", async () => {
    await window.command("Palace: Recall…");
    await window.input.fill("");
    const before = tap.of("palace/recall").length;
    await window.page.keyboard.type(QUESTION, { delay: 5 });
    const asked = (): unknown[] => tap.of("palace/recall").slice(before).map((one) => one.params.query);
    await until("the whole question is asked", () => asked().at(-1) === QUESTION, { seen: asked });
    const isBeginning = (query: unknown): boolean => typeof query === "string" && QUESTION.startsWith(query);
    assert.ok(asked().every(isBeginning), `not what was typed: ${JSON.stringify(asked())}`);
    // A slow machine asks after each key. A blank at the end is typed, and not sent: then the same may be asked once more.
    const mayAgain = (query: unknown): boolean => typeof query === "string" && QUESTION.charAt(query.length) === " ";
    const times = (query: unknown): number => asked().filter((one) => one === query).length;
    assert.deepEqual(asked().filter((query) => times(query) > (mayAgain(query) ? 2 : 1)), [], "the same was asked too often");

    // Now with answers that come late and in the wrong order.
    tap.hold((request) => request.method === "palace/recall");
    const [first, second, third] = ["tide gauge", "tide gauge of Brest", "crab-spit has no new data"];
    for (const question of [first, second, third]) {
      await window.input.fill(question);
      await until(`${question} is asked`, () => tap.of("palace/recall").at(-1)?.params.query === question);
    }
    const isWithdrawn = (question: string): boolean =>
      tap.of("palace/recall").filter((one) => one.params.query === question).every((one) => tap.isWithdrawn(one));
    await until("the overtaken questions are withdrawn", () => isWithdrawn(first) && isWithdrawn(second));
    assert.ok(!isWithdrawn(third), "the last question was withdrawn");
    await until("the list shows that an answer is awaited", async () => (await window.quickInputState()).isBusy);
    tap.release();
    const [best] = await found(third);
    assert.ok(best);
    await until("the last question's answer is shown", async () => hits(await window.rows())[0]?.label.startsWith(labelStart(best)), { seen: () => window.rows() });
    await until("nothing is awaited any more", async () => !(await window.quickInputState()).isBusy);
    assert.ok(hits(await window.rows())[0]?.label.startsWith(labelStart(best)));
    await window.screenshot("recall-typed");
    await window.closeQuickInput();
  });
});

test("an answer is inserted at the cursor by a button of its row", async () => {
  await server.scenario("insert", async () => {
    await window.openFile("notes.md");
    await window.goToLine(5);
    await ask(QUESTION);
    const [best] = await found(QUESTION);
    assert.ok(best);
    const whole = JSON.parse(await server.world.palace("get", "--json", best.exchangeId)) as { replyText: string };
    const reply = whole.replyText.split("\n").find((line) => line.trim().length > 20) ?? "";
    const row = window.page.locator(".quick-input-list .monaco-list-row", { hasText: labelStart(best) }).first();
    await window.pressRowButton(row, "Insert", async () => (await window.editorText()).includes(reply.slice(0, 40)));
    await until("the palette is closed", async () => !(await window.isQuickInputOpen()));
    assert.equal((await window.tabs())[0], "notes.md");
    await window.screenshot("insert");
    await window.page.keyboard.press("Control+Z");
    await until("one undo takes it back", async () => !(await window.editorText()).includes(reply.slice(0, 40)));
  });
});

test("a selection is asked as it stands", async () => {
  await server.scenario("selection", async () => {
    await window.openFile("notes.md");
    await window.goToLine(3, true);
    await window.command("Palace: Recall Selection");
    const question = "Why is the database locked at night?";
    await until("the selection is the question", async () => (await window.quickInputState()).value === question, { seen: () => window.quickInputState() });
    const [best] = await found(question);
    assert.ok(best);
    await until("its answer is shown", async () => hits(await window.rows())[0]?.label.startsWith(labelStart(best)), { seen: () => window.rows() });
    await window.screenshot("recall-selection");
    await window.closeQuickInput();
  });
});

test("buttons and typed filters narrow the search, and say where it looks", async () => {
  await server.scenario("filters", async () => {
    await ask(QUESTION);
    await window.input.fill(`agent:codex ${QUESTION}`);
    await until("only one agent's are listed", async () => {
      const rows = hits(await window.rows());
      return rows.length > 2 && rows.every((row) => row.description.includes("Codex"));
    }, { seen: () => window.rows() });
    assert.match((await window.quickInputState()).title, /Codex/);
    await window.input.fill("zzzz-no-such-word agent:codex since:2031-01-01");
    await until("the palette says where it found nothing", async () => (await window.rows())[0]?.label.startsWith("Nothing found"), { seen: () => window.rows() });
    await window.screenshot("recall-nothing");
    await window.pressQuickInputButton("Search only in tidepool");
    await until("the title names the project", async () => (await window.quickInputState()).title.includes("tidepool"), { seen: () => window.quickInputState() });
    await window.pressQuickInputButton("Search all projects");
    await window.closeQuickInput();
  });
});
