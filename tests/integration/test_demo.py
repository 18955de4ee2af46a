# SPDX-License-Identifier: Apache-2.0
"""./dev demo: its chapters, and that each fails where what it shows is not so"""

import contextlib
import io
import pathlib
import sys
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "lib"), str(ROOT / "demo")]

import cluster
import orders
import silence
import stage
import story
import tap

ORDERS = 8
TIMEOUT_S = 120 * cluster.SLOW
WORKFLOW = ROOT / "workflows" / "order.cfg"


class Chapters(cluster.TestCase):
    def begin(self, changes=(), **more):
        """A story of which nothing is told yet. @changes: (what stands in the workflow, what then
        stands there)."""
        text = WORKFLOW.read_text()
        for old, new in changes:
            self.assertEqual(1, text.count(old), old)
            text = text.replace(old, new)
        (self.directory / "workflows").mkdir()
        (self.directory / "workflows" / WORKFLOW.name).write_text(text)
        self.world = orders.World(self.directory)
        self.addCleanup(self.world.close)
        receiver = silence.Receiver(self.directory)
        self.addCleanup(receiver.close)
        workflows = {"scheduler": {"scheduler": {"workflows": str(self.directory / "workflows")}}}
        settings = cluster.merged(cluster.merged(self.world.settings(), workflows), silence.settings(receiver))
        return story.Story(self.world, self.cluster(settings=settings, actor=orders.ACTOR, **more), receiver)

    def told(self, function, *arguments):
        """What it says."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            function(*arguments)
        return out.getvalue()

    def fails(self, what, function):
        """The check that says @what does not hold."""
        with self.assertRaisesRegex(stage.NotSo, what):
            self.told(function)

    def one_completed(self, *changes):
        tale = self.begin(changes)
        self.world.place(1)
        self.world.start_shop(tale.drover.url)
        self.world.await_ended(TIMEOUT_S)
        self.assertEqual({"completed": 1}, self.world.states())
        return tale

    def test_all(self):
        tale = self.begin(schedulers=2, agents=2, supervisors=2)
        said = self.told(tale.tell, ORDERS)
        self.assertEqual(9, said.count("checked: "), said)
        self.assertEqual(
            {"completed": ORDERS + story.OUTAGE_ORDERS, "failed": 1}, self.world.states()
        )

    def test_declined_and_not_released(self):
        tale = self.one_completed(('revert = { action = "release"; };', ""))
        self.fails("nothing is left", tale.declined)
        self.fails("balance.*\n.*1 times in the book of inventory", tale.balance)

    def test_declined_before_anything_was_done(self):
        tale = self.one_completed(
            ('after = [ "reserve" ];', ""), ('"inventory";', '"inventory"; after = [ "charge" ];')
        )
        self.fails("undone in reverse", tale.declined)

    def test_taken_back_but_for_the_parcel(self):
        tale = self.one_completed(('revert = { action = "recall"; };', ""))
        self.fails("undone in reverse", tale.taken_back)

    def test_outage_that_parks(self):
        tale = self.one_completed(("maximum_attempts = 20;", "maximum_attempts = 1;"))
        self.fails("parks nothing", tale.outage)

    def test_charge_of_nobody(self):
        tale = self.one_completed()
        self.told(tale.balance)
        body = b'{"input": {"amount": 1}, "arguments": {"currency": "EUR"}}'
        url = f"{self.world.services['payment'].url}/charge/nobody"
        with urllib.request.urlopen(
            urllib.request.Request(url, body, {"Idempotency-Key": "nobody/charge/1"}), timeout=30
        ):
            self.fails("balance.*\n.*nobody placed", tale.balance)


if __name__ == "__main__":
    tap.main()
