# SPDX-License-Identifier: Apache-2.0
# Options of a program. collet.run uses this file, and mk/programs.mk puts it into the tools that are scripts.
import argparse
import difflib


class Options(argparse.ArgumentParser):
    """Of an option that is none, it says which one was probably meant."""

    def parse_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def,override]
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            words = [word.partition("=")[0] for word in unknown if word.startswith("--")]
            known = [near for word in words for near in difflib.get_close_matches(word, self._option_string_actions, 1, 0.7)]
            self.error("unrecognized arguments: " + " ".join(unknown) + (f"; did you mean {known[0]}?" if known else ""))
        return options
