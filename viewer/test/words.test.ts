// Numbers, names, the URL, the wire: what text and bytes stand for.
import { strict as assert } from "node:assert";
import { test } from "node:test";
import { decode, encode } from "../src/data/frame.ts";
import { keyOf } from "../src/data/source.ts";
import { Store } from "../src/data/store.ts";
import { change, count, held, number, plain, share, shortened, size, spent, time } from "../src/format.ts";
import { csv, json } from "../src/parts/download.tsx";
import { START, fromFragment, toFragment } from "../src/state.ts";
import { Double } from "../dev/double.ts";

test("times as the command line has them", () => {
  const said: [number, string][] = [
    [0, "0 ns"], [999, "999 ns"], [999.6, "1.00 µs"], [1234, "1.23 µs"], [99949, "99.9 µs"], [99950, "100 µs"], [21.5e6, "21.5 ms"], [1.9e9, "1.90 s"], [1234e9, "1,234 s"], [-1500, "-1.50 µs"],
    // A tie goes to the even digit, as Python rounds.
    [1125000, "1.12 ms"], [1375000, "1.38 ms"], [2.5, "2 ns"], [3.5, "4 ns"],
  ];
  for (const [ns, words] of said) assert.equal(time(ns), words);
  assert.equal(time(Number.NaN), "-");
  assert.equal(spent(0), "-");
});

test("sizes, shares and counts", () => {
  assert.equal(size(1023), "1023 B");
  assert.equal(size(1024), "1.00 KiB");
  assert.equal(size(3995000), "3.81 MiB");
  assert.equal(held(0), "-");
  assert.equal(share(0.1234), "12.3%");
  assert.equal(count(12000), "12,000");
  assert.equal(count(0), "-");
  assert.equal(number(1, "run"), "1 run");
  assert.equal(number(2000, "run"), "2,000 runs");
  assert.equal(change(0.5), "+50.0%");
});

test("names do nothing but be seen", () => {
  assert.equal(plain("a\x1b[2Jb"), "a\\x1b[2Jb");
  assert.equal(plain("x\u202ey\u2028"), "x\\u202ey\\u2028");
  assert.equal(plain("\u{e0001}\ud800\n"), "\\U000e0001\\ud800\\n");
  assert.equal(plain("<b>ü 漢</b>"), "<b>ü 漢</b>");
  const megabyte = "x".repeat(1_000_000);
  assert.equal(shortened(megabyte, 40).length, 40);
});

test("a state survives its URL, and nonsense is the start", () => {
  const state = { ...START, page: "memory" as const, select: { kind: "op" as const, name: "a/b:c=&#?\u202e", row: 7 }, view: [5, 900] as const, at: 12.5, filter: "x y" };
  assert.deepEqual(fromFragment(toFragment(state)), state);
  assert.equal(toFragment(START), "#");
  assert.deepEqual(fromFragment("#page=nowhere&select=evil::x&view=9-3&at=soon&colour=<b>&%=%"), START);
  assert.deepEqual(fromFragment("#select=op::x%ZZ"), START);
});

test("columns come as views of the frame's bytes", () => {
  const columns = new Float64Array([1, 2.5, Number.NaN]);
  const text = JSON.stringify({ a: { $: ["f64", 64, 3] }, b: [1], name: "ü" });
  const words = new TextEncoder().encode(text);
  const frame = new Uint8Array(88).fill(32);
  frame.set([0x53, 0x53, 0x43, 0x31]);
  new DataView(frame.buffer).setUint32(4, 56, true);
  frame.set(words, 8);
  frame.set(new Uint8Array(columns.buffer), 64);
  const value = decode(frame.buffer) as { a: Float64Array; name: string };
  assert.deepEqual([...value.a], [1, 2.5, Number.NaN]);
  assert.equal(value.a.buffer, frame.buffer);
  assert.equal(value.name, "ü");
  assert.deepEqual(decode(encode({ x: [1, "y"] })), { x: [1, "y"] });
  assert.throws(() => decode(new ArrayBuffer(16)), /no frame/);
});

test("a resource has one key", () => {
  assert.equal(keyOf("op", { run: 3, name: "a/b c", row: undefined }), "op?name=a%2Fb%20c&run=3");
  assert.equal(keyOf("session"), "session");
});

test("what is asked for twice is fetched once, and failures say why", async () => {
  const asked: string[] = [];
  const double = new Double();
  const store = new Store({ place: "view", follows: true, get: (key) => { asked.push(key); return double.get(key); } });
  store.typical = 117;
  assert.equal(store.ask({ name: "timeline", params: { run: 117 } }).state, "loading");
  store.ask({ name: "timeline" });
  store.ask({ name: "nothing" });
  await new Promise((done) => setTimeout(done, 5));
  assert.deepEqual(asked, ["timeline", "nothing"]);
  assert.equal(store.ask({ name: "timeline" }).state, "ready");
  assert.equal(store.ask({ name: "nothing" }).failure?.what, "There is no resource nothing.");
  // When runs came, what was there stays until its successor is here.
  store.changed();
  const again = store.ask<{ ops: number }>({ name: "timeline" });
  assert.equal(again.state, "loading");
  assert.equal(again.value?.ops, 38);
});

test("rows as CSV and JSON", () => {
  const rows = { columns: ["name", "ns"], rows: [['a "quoted", name', 5], ["b", Number.NaN]] };
  assert.equal(csv(rows), 'name,ns\r\n"a ""quoted"", name",5\r\nb,\r\n');
  assert.deepEqual(JSON.parse(json(rows)), [{ name: 'a "quoted", name', ns: 5 }, { name: "b", ns: null }]);
});
