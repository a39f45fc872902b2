#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Patterns of English that must be read twice, each with what to write instead. `english.sh FILE…` prints every place where one
# of them stands, as file:line: pattern: text, and fails if there is any. Of sources only comments count, of pages all
# but blocks between ```.

# instead | a regular expression of Perl; a pattern that would find much that is right is left out
patterns() {
    cat <<'END'
"this rank's", "its"|\b[Tt]he own\b
rarely, predict, always or without end, at the same time|\b(seldom|foretells?|foretold|for ever|[Mm]eanwhile|whilst)\b
a rank that …, the code that …|\b(ranks?|process(es)?|nodes?|threads?|ends?|those|everyone|producers?|consumers?|readers?|peers?|callers?),? who\b
a rank that …, the code that …|(?<!say|ell|ays|ees|ows|ent|out|see|arn|rns|ask|of|is|: |\| )(^|[.;,(] |\b(by|to|while|so|only|than|and|but) )[Ww]ho (sees|finds|waits|vanishes|knows|uses|walks|calls|works|sleeps|needs|gets|sends|looks|can|enters|leaves|takes|runs)\b
per rank, per connection, …|\b(once|twice|times|slots?|bytes|lanes?|steps?|rings?|files?|blocks?|CPUs?|workers?|sockets?|registers?) an? (rank|connection|channel|process|node|host|GPU|NIC|slot|communicator|round|octave|worker|CPU|lane|line|algorithm|rail|tree|type)\b(?! (that|of its|is|has|can|may))
per rank, per connection, …|\b(one|two|three|four|[0-9]+) (?!of)[a-z]+ an? (rank|connection|channel|process|node|host|GPU|NIC|slot|communicator|octave|algorithm)\b(?! (that|of its|is|has|can|may))
if there is …|\b[Ww]here (nvcc is\b|there (is|are) (no|none|one|an?|not enough)\b)
as always, as before|\bas ever\b
"can be made", "is there"|\b(is|are|was) (not )?to be had\b
END
}

# The text of a file that is to be read, line for line; other lines are empty. One process reads all files.
patterns | perl -CSD -Mutf8 -e '
    binmode STDIN, ":utf8";
    my @patterns = map { chomp; my ($instead, $pattern) = split /\|/, $_, 2; [$instead, qr/$pattern/] } <STDIN>;
    sub prose_of_page { my $code = 0; map { /^```/ ? do { $code = !$code; "" } : $code ? "" : $_ } @_ }
    sub prose_of_script { map { /^ *#/ ? $_ : "" } @_ }
    sub prose_of_source {
        my $inside = 0;
        map {
            my ($text, $line) = ("", $_);
            while ($line ne "") {
                if (!$inside) {
                    last unless $line =~ m{(/\*|//)}g;
                    $line = substr $line, pos $line;
                    if ($1 eq "//") { $text .= $line; last }
                    $inside = 1;
                }
                my $end = index $line, "*/";
                if ($end < 0) { $text .= $line; last }
                $text .= substr($line, 0, $end) . " ";
                $line = substr $line, $end + 2;
                $inside = 0;
            }
            $text
        } @_
    }
    my $bad = 0;
    for my $file (@ARGV) {
        open my $in, "<:utf8", $file or die "$file: $!\n";
        chomp(my @lines = <$in>);
        my @prose = $file =~ /\.md$/ ? prose_of_page(@lines) : $file =~ /\.sh$/ ? prose_of_script(@lines) : prose_of_source(@lines);
        for my $p (@patterns) {
            for my $k (0 .. $#prose) {
                next unless $prose[$k] =~ $p->[1];
                print "$file:", $k + 1, ": write $p->[0]: $prose[$k]\n";
                $bad = 1;
            }
        }
    }
    exit $bad' "$@"
