#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a small certificate authority, and certificates of servers and clients

    authority.py FOLDER --server rabbitmq=rabbitmq,localhost --server redis=redis,10.1.2.3
                        [--client drover-scheduler ...] [--days N] [--renew] [--readable]

For an installation that has no authority of its own. FOLDER gets:

    ca.pem, ca.key          the authority, for ten years. Keep ca.key elsewhere, or delete it: who
                            has it can be any server and any client
    NAME.pem, NAME.key      of each server, valid for its hosts; and of each client, whose common
                            name, NAME, is its user at RabbitMQ (rabbitmq.login = "certificate")

What is there already stays, except with --renew: then new keys and certificates of the same
authority replace the named ones. Daemons take them after SIGHUP, for connections that begin then.
Keys can be read by their owner only; with --readable by all, for containers, whose users are
others: then only the owner may enter FOLDER. A daemon refuses a key_file that all can read: give
it a copy that only its user can read. It calls `openssl`.
"""

import argparse
import ipaddress
import os
import pathlib
import subprocess
import sys
import tempfile

CA_DAYS = 3650


def openssl(*arguments):
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"openssl {arguments[0]}: {done.stderr.strip()}")


def new_key(path):
    """A private key that nobody else can read, not even while it is written."""
    os.umask(0o077)
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path)


def make_authority(folder):
    cert, key = folder / "ca.pem", folder / "ca.key"
    if cert.exists() and key.exists():
        return
    if cert.exists():
        sys.exit(f"{key} is not there: without it nothing can be signed")
    if key.exists():
        sys.exit(f"{cert} is not there, and {key} is: put it back, or use another folder")
    new_key(key)
    openssl("req", "-x509", "-new", "-key", key, "-days", CA_DAYS, "-subj", "/CN=Drover authority",
            "-addext", "basicConstraints=critical,CA:TRUE",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign",
            "-addext", "subjectKeyIdentifier=hash", "-out", cert)
    cert.chmod(0o644)


def san(host):
    try:
        return f"IP:{ipaddress.ip_address(host)}"
    except ValueError:
        return f"DNS:{host}"


def replace(path, text, mode):
    """Puts a file in place of an old one: nobody reads half of it. It keeps the old one's owner."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    new.touch(mode=0o600)
    new.write_text(text)
    if path.exists():
        os.chown(new, path.stat().st_uid, path.stat().st_gid)
    new.chmod(mode)
    new.replace(path)


def issue(folder, name, days, mode, usage, hosts=()):
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    extensions = ["basicConstraints=critical,CA:FALSE", f"extendedKeyUsage={usage}",
                  "subjectKeyIdentifier=hash", "authorityKeyIdentifier=keyid"]
    if hosts:
        extensions.append("subjectAltName=" + ",".join(san(host) for host in hosts))
    with tempfile.TemporaryDirectory() as scratch:
        new, request = pathlib.Path(scratch) / "new.key", pathlib.Path(scratch) / "request"
        settings, signed = pathlib.Path(scratch) / "settings", pathlib.Path(scratch) / "signed"
        settings.write_text("\n".join(extensions) + "\n")
        new_key(new)
        openssl("req", "-new", "-key", new, "-subj", f"/CN={name}", "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", folder / "ca.pem", "-CAkey",
                folder / "ca.key", "-days", days, "-extfile", settings, "-out", signed)
        replace(key, new.read_text(), key.stat().st_mode & 0o777 if key.exists() else mode)
        replace(cert, signed.read_text(), 0o644)
    print(f"{cert}: {', '.join(hosts) if hosts else 'client ' + name}, {days} days")


def server(text):
    name, _, hosts = text.partition("=")
    hosts = [host for host in hosts.split(",") if host]
    if not name or not hosts or "/" in name or name == "ca":
        raise argparse.ArgumentTypeError(f"{text}: must be NAME=HOST[,HOST...]")
    return name, hosts


def client(text):
    if not text or "/" in text or text == "ca":
        raise argparse.ArgumentTypeError(f"'{text}': must be the name of a user")
    return text, ()


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--server", action="append", default=[], type=server, metavar="NAME=HOSTS")
    parser.add_argument("--client", action="append", default=[], type=client, metavar="NAME")
    parser.add_argument("--days", type=int, default=397, help="how long they are valid (397)")
    parser.add_argument("--renew", action="store_true", help="replace those that are named")
    parser.add_argument("--readable", action="store_true", help="let all read the keys")
    options = parser.parse_args()
    if not options.server and not options.client:
        parser.error("name at least one --server or --client")
    names = [name for name, _ in options.server + options.client]
    if len(set(names)) < len(names):
        parser.error("a name stands for two certificates")
    return options


def main():
    options = parse()
    options.folder.mkdir(mode=0o700 if options.readable else 0o777, parents=True, exist_ok=True)
    if options.readable and options.folder.stat().st_mode & 0o077:
        sys.exit(f"others can enter {options.folder}: chmod 700 it, or leave --readable out")
    make_authority(options.folder)
    wanted = [(name, hosts, "serverAuth") for name, hosts in options.server]
    wanted += [(name, hosts, "clientAuth") for name, hosts in options.client]
    for name, hosts, usage in wanted:
        if options.renew or not (options.folder / f"{name}.pem").exists():
            mode = 0o444 if options.readable else 0o600
            issue(options.folder, name, options.days, mode, usage, hosts)


if __name__ == "__main__":
    main()
