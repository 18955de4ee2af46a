# SPDX-License-Identifier: Apache-2.0
"""./dev demo: its chapters, and that each fails if what it shows does not happen"""

import contextlib
import io
import pathlib
import sys
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[3]
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
        """Returns a story that has not begun. changes: (old text, new text) in the workflow."""
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
        settings = cluster.merged(
            cluster.merged(self.world.settings(), workflows), silence.settings(receiver)
        )
        return story.Story(
            self.world, self.cluster(settings=settings, actor=orders.ACTOR, **more), receiver
        )

    def output_of(self, function, *arguments):
        """Returns the output of a function."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            function(*arguments)
        return out.getvalue()

    def fails(self, what, function):
        """Expects that the check with this text fails."""
        with self.assertRaisesRegex(stage.CheckFailed, what):
            self.output_of(function)

    def one_completed(self, *changes):
        chapters = self.begin(changes)
        self.world.place(1)
        self.world.start_shop(chapters.drover)
        self.world.await_ended(TIMEOUT_S)
        self.assertEqual({"completed": 1}, self.world.states())
        return chapters

    def test_all(self):
        chapters = self.begin(schedulers=2, agents=2, supervisors=2)
        output = self.output_of(chapters.run, ORDERS)
        self.assertEqual(9, output.count("checked: "), output)
        self.assertEqual(
            {"completed": ORDERS + story.OUTAGE_ORDERS, "failed": 1}, self.world.states()
        )

    def test_declined_and_not_released(self):
        chapters = self.one_completed(('revert = { action = "release"; };', ""))
        self.fails("nothing is left", chapters.declined)
        self.fails("agree.*\n.*1 times in the ledger of inventory", chapters.audit)

    def test_declined_before_the_reservation(self):
        chapters = self.one_completed(
            ('after = [ "reserve" ];', ""), ('"inventory";', '"inventory"; after = [ "charge" ];')
        )
        self.fails("undone in reverse", chapters.declined)

    def test_taken_back_but_for_the_parcel(self):
        chapters = self.one_completed(('revert = { action = "recall"; };', ""))
        self.fails("undone in reverse", chapters.taken_back)

    def test_outage_that_parks(self):
        chapters = self.one_completed(("maximum_attempts = 20;", "maximum_attempts = 1;"))
        self.fails("parks nothing", chapters.outage)

    def test_charge_without_an_order(self):
        chapters = self.one_completed()
        self.output_of(chapters.audit)
        body = b'{"input": {"amount": 1}, "arguments": {"currency": "EUR"}}'
        url = f"{self.world.services['payment'].url}/charge/nobody"
        with urllib.request.urlopen(
            urllib.request.Request(url, body, {"Idempotency-Key": "nobody/charge/1"}), timeout=30
        ):
            self.fails("agree.*\n.*was not placed", chapters.audit)


if __name__ == "__main__":
    tap.main()
