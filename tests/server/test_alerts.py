#!/usr/bin/env python3
"""The alert rules, each with series that must wake somebody up and series that must not.

    tests/server/test_alerts.py
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

RULES = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "deploy", "alerts.yml"))
OF = 'instance="a",service="default"'
DAY_S = 86400
HOURS = 3  # what each story lasts; a value for each minute

# For each alert: what fires it, and what does not. `0+60x180` begins with 0 and grows by 60 a minute.
STORIES = {
    "KazahanaDown": (['up{job="kazahana",instance="a"} 0x180'], ['up{job="kazahana",instance="a"} 1x180', 'up{job="x"} 0x180']),
    "KazahanaComponentDown": (['kazahana_up{component="store"} 0x180'], ['kazahana_up{component="store"} 1x180']),
    "KazahanaLeasesFail": (
        [f'kazahana_lease_acquisitions_total{{{OF},result="failed"}} 0+10x180',
         f'kazahana_lease_acquisitions_total{{{OF},result="granted"}} 0+60x180'],
        [f'kazahana_lease_acquisitions_total{{{OF},result="failed"}} 0+1x180',
         f'kazahana_lease_acquisitions_total{{{OF},result="granted"}} 0+60x180']),
    "KazahanaLeasesRefused": ([f'kazahana_lease_acquisitions_total{{{OF},result="refused"}} 0+3x180'],
                              [f'kazahana_lease_acquisitions_total{{{OF},result="refused"}} 7x180']),
    "KazahanaNodesRunOut": ([f'kazahana_nodes_free{{{OF}}} 300-1.25x180', f'kazahana_nodes{{{OF}}} 512x180'],
                            [f'kazahana_nodes_free{{{OF}}} 300x180', f'kazahana_nodes{{{OF}}} 512x180']),
    "KazahanaUnfencedIDs": ([f'kazahana_ids_total{{{OF},kind="unfenced"}} 0x177 5x3'],
                            [f'kazahana_ids_total{{{OF},kind="fenced"}} 0+9x180']),
    "KazahanaFencedIDs": ([f'kazahana_ids_total{{{OF},kind="fenced"}} 0+9x180'],
                          [f'kazahana_ids_total{{{OF},kind="leased"}} 0+9x180']),
    "KazahanaClientsUnfenced": ([f'kazahana_client_ids_total{{{OF},kind="unfenced"}} 0x170 5x10'],
                                [f'kazahana_client_ids_total{{{OF},kind="fenced"}} 0+9x180']),
    "KazahanaClientsFenced": ([f'kazahana_client_ids_total{{{OF},kind="fenced"}} 0x160 9x9 800x10'],
                              [f'kazahana_client_ids_total{{{OF},kind="leased"}} 0+9x180']),
    "KazahanaClientsExhausted": ([f'kazahana_client_exhausted_total{{{OF}}} 0+900x180'],
                                 [f'kazahana_client_exhausted_total{{{OF}}} 0+60x180']),
    "KazahanaClientsClockBack": ([f'kazahana_client_clock_back_total{{{OF}}} 0x160 3x20'],
                                 [f'kazahana_client_clock_back_total{{{OF}}} 3x180']),
    "KazahanaSequenceExhausted": ([f'kazahana_sequence_exhausted_total{{{OF}}} 0+900x180'],
                                  [f'kazahana_sequence_exhausted_total{{{OF}}} 0+60x180']),
    "KazahanaClockBackward": ([f'kazahana_clock_backward_total{{{OF}}} 0x170 1x10'], [f'kazahana_clock_backward_total{{{OF}}} 1x180']),
    "KazahanaAheadOfTheClock": ([f'kazahana_ahead_seconds{{{OF}}} 0.9x180'], [f'kazahana_ahead_seconds{{{OF}}} 0.1x180']),
    "KazahanaLayoutEnds": ([f'kazahana_layout_last_day_timestamp_seconds{{{OF}}} {300 * DAY_S}x180'],
                           [f'kazahana_layout_last_day_timestamp_seconds{{{OF}}} {400 * DAY_S}x180']),
    "KazahanaStoreSlow": (
        ['kazahana_store_seconds_bucket{instance="a",le="0.1"} 0+1x180', 'kazahana_store_seconds_bucket{instance="a",le="0.5"} 0+60x180',
         'kazahana_store_seconds_bucket{instance="a",le="+Inf"} 0+60x180'],
        ['kazahana_store_seconds_bucket{instance="a",le="0.01"} 0+60x180', 'kazahana_store_seconds_bucket{instance="a",le="+Inf"} 0+60x180']),
    "KazahanaStoreQueue": (['kazahana_store_queue{instance="a"} 5000x180'], ['kazahana_store_queue{instance="a"} 9x180']),
    "KazahanaErrors": (
        ['kazahana_http_requests_total{instance="a",status="5xx"} 0+5x180', 'kazahana_http_requests_total{instance="a",status="2xx"} 0+90x180'],
        ['kazahana_http_requests_total{instance="a",status="4xx"} 0+5x180', 'kazahana_http_requests_total{instance="a",status="2xx"} 0+90x180']),
}


@unittest.skipUnless(shutil.which("promtool"), "promtool is not installed")
class Alerts(unittest.TestCase):
    def test_each_has_its_story(self):
        with open(RULES, encoding="utf-8") as file:
            self.assertEqual(set(re.findall(r"- alert: (\w+)", file.read())), set(STORIES))

    def test_each_fires_when_it_should_and_only_then(self):
        tests = []
        for alert, stories in STORIES.items():
            for series, firing in zip(stories, (1, 0)):
                split = [line.rsplit("} ", 1) for line in series]
                tests.append({
                    "name": alert, "interval": "1m",
                    "input_series": [{"series": name + "}", "values": values} for name, values in split],
                    "promql_expr_test": [{
                        "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})', "eval_time": f"{HOURS}h",
                        "exp_samples": [{"labels": "{}", "value": 1}] if firing else []}]})
        with tempfile.TemporaryDirectory(prefix="kz-alerts-") as folder:
            path = os.path.join(folder, "alerts_test.yml")
            with open(path, "w", encoding="utf-8") as file:  # JSON is YAML
                json.dump({"rule_files": [RULES], "evaluation_interval": "1m", "tests": tests}, file)
            done = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
