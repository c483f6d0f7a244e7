// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-io/capstan/test/docs/transcript"
)

// guide is a page about one task, with the scripts that play it.
type guide struct {
	document
	name    string
	scripts map[string]transcript.Script
}

// block is a fenced part of a guide.
type block struct{ language, text string }

func guides(t *testing.T) []guide {
	t.Helper()
	var all []guide
	for _, p := range pages(t) {
		if filepath.Base(filepath.Dir(p.path)) != "guides" {
			continue
		}
		g := guide{document: p, name: filepath.Base(p.path), scripts: map[string]transcript.Script{}}
		for _, target := range p.found(regexp.MustCompile(`\]\(([^)\s]+\.(?:txtar|session))\)`)) {
			g.scripts[target] = mustRead(t, filepath.Join(filepath.Dir(p.path), target))
		}
		all = append(all, g)
	}
	return all
}

func mustRead(t *testing.T, path string) transcript.Script {
	t.Helper()
	script, err := transcript.ReadScript(path)
	if err != nil {
		t.Fatal(err)
	}
	return script
}

func (g guide) blocks() []block {
	var all []block
	for _, match := range regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```").FindAllStringSubmatch(g.text, -1) {
		all = append(all, block{match[1], match[2]})
	}
	return all
}

// TestGuidesTypeWhatTestsType compares what the guides tell a user to type, and what
// they say is printed, with the walk-throughs and sessions to which they link.
func TestGuidesTypeWhatTestsType(t *testing.T) {
	// Commands that no walk-through and no session types, with the reason.
	left := map[string]string{
		"age-keygen -o key.txt": "a program of age; the session has the key that it would write",
		"capstan restore --name fleet --identity key.txt -f fleet.backup --yes": "the session types it with a passphrase, as does drillRestore in test/e2e",
		"capstan restore confirm --context fleet --all":                         "drillRestore in test/e2e types it, in Go",
	}
	looked := 0
	for _, g := range guides(t) {
		if len(g.scripts) == 0 {
			t.Errorf("%s links to no walk-through and no session that types its commands", g.path)
		}
		for _, b := range g.blocks() {
			switch b.language {
			case "console":
				var same []*transcript.TypedCommand
				for line := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", " ")) {
					line = strings.TrimSpace(line)
					command, ok := strings.CutPrefix(line, "$ ")
					if !ok {
						if !g.isPrinted(line, same) {
							t.Errorf("%s: nothing that the guide links to expects this line of the command before it:\n%s", g.path, line)
						}
						continue
					}
					looked++
					same = g.typed(transcript.NormalWords(command))
					if _, ok := left[transcript.SingleSpaced(command)]; ok {
						delete(left, transcript.SingleSpaced(command))
					} else if len(same) == 0 {
						t.Errorf("%s: nothing that the guide links to types this command:\n%s", g.path, command)
					}
				}
			case "yaml":
				g.compareFile(t, b.text)
			default:
				t.Errorf("%s: a block of %q: use console or yaml:\n%s", g.path, b.language, b.text)
			}
		}
	}
	for command, reason := range left {
		t.Errorf("no guide has %q any more, which no script types: %s", command, reason)
	}
	atLeast(t, 100, looked)
}

// typed returns the commands of the scripts that are the same as one of the guide.
func (g guide) typed(words []string) []*transcript.TypedCommand {
	var same []*transcript.TypedCommand
	for _, name := range slices.Sorted(maps.Keys(g.scripts)) {
		for _, c := range g.scripts[name].Commands {
			if c.MatchesGuide(words) {
				same = append(same, c)
			}
		}
	}
	return same
}

// isPrinted reports whether a line is what one of the commands prints, or what capstan
// prints in a session of the guide, such as the head of a table. Three dots stand for
// lines that are left out.
func (g guide) isPrinted(line string, by []*transcript.TypedCommand) bool {
	if line == "" || line == "…" {
		return true
	}
	for _, c := range by {
		if slices.Contains(c.Lines, transcript.SingleSpaced(line)) {
			return true
		}
		for _, expression := range c.Prints { // a line may end in a space, which nobody sees
			if expression.MatchString(line) || expression.MatchString(line+" ") {
				return true
			}
		}
	}
	for _, s := range g.scripts {
		if slices.Contains(s.Lines, transcript.SingleSpaced(line)) {
			return true
		}
	}
	return false
}

// compareFile looks for a file of a guide among those of the scripts, and the samples to
// which the guide links.
func (g guide) compareFile(t *testing.T, text string) {
	t.Helper()
	image := regexp.MustCompile(`image: "?[^\s",}]+"?`)
	want := image.ReplaceAllString(strings.TrimSpace(text), "image")
	files := g.samples(t)
	for _, s := range g.scripts {
		files = append(files, s.Files...)
	}
	for _, file := range files {
		if strings.Contains(image.ReplaceAllString(file, "image"), want) {
			return
		}
	}
	t.Errorf("%s: nothing that the guide links to has this file:\n%s", g.path, text)
}

// samples returns the files of the folders of samples to which a guide links.
func (g guide) samples(t *testing.T) []string {
	t.Helper()
	var texts []string
	for _, target := range g.found(regexp.MustCompile(`\]\(([^)\s]*config/samples/[a-z-]+)\)`)) {
		files, err := filepath.Glob(filepath.Join(filepath.Dir(g.path), target, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(text))
		}
	}
	return texts
}

// TestWalkthroughsNameTheirGuides compares the first comment of each walk-through, which
// names the guides that it plays, with the links of the guides.
func TestWalkthroughsNameTheirGuides(t *testing.T) {
	want := map[string][]string{}
	for _, g := range guides(t) {
		for target := range g.scripts {
			if file := filepath.Base(target); strings.HasSuffix(file, ".txtar") {
				want[file] = append(want[file], g.name)
			}
		}
	}
	files, err := filepath.Glob(root + "/test/e2e/testdata/walkthrough/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		named, linking := mustRead(t, file).Guides, want[filepath.Base(file)]
		slices.Sort(linking)
		if !slices.Equal(named, linking) {
			t.Errorf("%s says that it plays %q, and is linked to by %q", file, named, linking)
		}
	}
	atLeast(t, 10, len(files))
}
