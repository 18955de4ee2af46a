# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests, made by deploy/authority.py

    authority = authority.Authority(folder)
    server = authority.issue_server("server", "localhost", "127.0.0.1")
    client = authority.issue_client("drover-agent")
    authority.ca, server.cert, server.key       paths of PEM files
"""

import collections
import pathlib
import ssl
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "authority.py"
Issued = collections.namedtuple("Issued", "cert key")


def end_of(cert):
    """Returns when a certificate expires, in seconds since 1970."""
    line = subprocess.run(["openssl", "x509", "-in", cert, "-noout", "-enddate"], check=True,
                          capture_output=True, text=True).stdout
    return ssl.cert_time_to_seconds(line.strip().partition("=")[2])


def self_signed(folder, host):
    """Returns a certificate that no authority has signed."""
    issued = Issued(pathlib.Path(folder) / "self.pem", pathlib.Path(folder) / "self.key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={host}", "-addext",
                    f"subjectAltName=DNS:{host}", "-keyout", issued.key, "-out", issued.cert],
                   check=True, capture_output=True)
    return issued


class Authority:
    """An authority of its own, or the one that the folder has already."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.ca = self.folder / "ca.pem"
        self._run("--client", "first")

    def _run(self, *arguments):
        subprocess.run([sys.executable, "-B", SCRIPT, self.folder, *arguments], check=True,
                       stdout=subprocess.DEVNULL)

    def _issued(self, name):
        return Issued(self.folder / f"{name}.pem", self.folder / f"{name}.key")

    def issue_server(self, name, *hosts, days=1):
        """days=0: it expires in this second."""
        self._run("--renew", "--server", f"{name}={','.join(hosts)}", "--days", str(days))
        return self._issued(name)

    def issue_client(self, name, days=1):
        self._run("--renew", "--client", name, "--days", str(days))
        return self._issued(name)
