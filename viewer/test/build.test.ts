import { strict as assert } from "node:assert";
import { test } from "node:test";

test("tests run", () => assert.equal(1 + 1, 2));
