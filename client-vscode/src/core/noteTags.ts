/** Tags of a note while they are typed. */

export interface TagRow {
  readonly tag: string;
  /** It is being typed now, and no note has it yet. */
  readonly isTyped: boolean;
}

/** The tags in a typed line: between commas, without # before them. */
export function tagsOf(typed: string): string[] {
  const tags = typed.split(",").map((one) => one.trim().replace(/^#+/, "").trim());
  return [...new Set(tags.filter((one) => one !== ""))];
}

/** What is offered: what is being typed first, then what is ticked, then the tags in use in the order given. */
export function tagRows(known: readonly string[], ticked: readonly string[], typed: string): TagRow[] {
  const all = [...ticked, ...known.filter((one) => !ticked.includes(one))];
  const fresh = tagsOf(typed).filter((one) => !all.includes(one));
  return [...fresh.map((tag) => ({ tag, isTyped: true })), ...all.map((tag) => ({ tag, isTyped: false }))];
}
