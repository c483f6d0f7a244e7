// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// typedCommand is a command that a test types, with what the test expects it to print.
type typedCommand struct {
	words []string
	// prints are expressions that a line of the output has to match.
	prints []*regexp.Regexp
	// lines are lines of the output, with single spaces.
	lines []string
}

// script is a walk-through or a session: what a test types.
type script struct {
	// guides are the names of the guides that it says it plays.
	guides   []string
	commands []*typedCommand
	// background are the commands that run beside others, by the names that they have.
	background map[string]*typedCommand
	// named are commands that are in variables of the environment.
	named map[string]string
	// files are the texts of the files that its commands read.
	files []string
	lines []string
}

// readScript reads a walk-through (.txtar) or a session of capstan (.session).
func readScript(t *testing.T, path string) script {
	t.Helper()
	text := readText(t, path)
	if strings.HasSuffix(path, ".session") {
		return readSession(t, text, filepath.Dir(path))
	}
	archive := txtar.Parse([]byte(text))
	s := script{guides: namedGuides(string(archive.Comment)), background: map[string]*typedCommand{}, named: map[string]string{}}
	for _, file := range archive.Files {
		s.files = append(s.files, string(file.Data))
	}
	for line := range strings.Lines(string(archive.Comment)) {
		s.addStep(t, strings.TrimSpace(line))
	}
	return s
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// namedGuides returns the guides that the first comment of a walk-through names.
func namedGuides(comment string) []string {
	head, _, _ := strings.Cut(comment, "\n\n")
	return document{text: head}.found(regexp.MustCompile(`docs/guides/([a-z-]+\.md)`))
}

// addStep adds a line of a walk-through: a command, or what the one before has to print.
func (s *script) addStep(t *testing.T, line string) {
	t.Helper()
	line = regexp.MustCompile(`^\[[^]]+\] `).ReplaceAllString(line, "")
	line, negated := strings.CutPrefix(line, "! ")
	words := wordShape().FindAllStringIndex(line, -1)
	const commandAt = 2 // in "until REGEXP COMMAND..."
	switch {
	case len(words) < commandAt:
	case strings.HasPrefix(line, "env "):
		if name, value, _ := strings.Cut(splitWords(line)[1], "="); strings.Contains(value, " ") {
			s.named["$"+name] = value
		}
	case strings.HasPrefix(line, "exec "):
		s.addCommand(line[words[1][0]:])
	case strings.HasPrefix(line, "until "):
		s.addCommand(line[words[commandAt][0]:])
		s.expect(t, splitWords(line)[1])
	case strings.HasPrefix(line, "wait "):
		s.commands = append(s.commands, s.background[splitWords(line)[1]])
	case !negated && (strings.HasPrefix(line, "stdout ") || strings.HasPrefix(line, "stderr ")):
		s.expect(t, splitWords(line)[1])
	}
}

// addCommand adds a command, as a user would type it.
func (s *script) addCommand(command string) {
	added := &typedCommand{}
	if name := regexp.MustCompile(` &(\w+)&$`).FindStringSubmatch(command); name != nil {
		s.background[name[1]] = added
		command = strings.TrimSuffix(command, name[0])
	}
	if words := splitWords(command); len(words) == 3 && words[0] == "sh" && words[1] == "-c" {
		command = words[2]
	}
	for name, value := range s.named {
		command = strings.ReplaceAll(command, name, value)
	}
	added.words = normalWords(command)
	s.commands = append(s.commands, added)
}

// expect adds an expression to what the last command has to print.
func (s *script) expect(t *testing.T, expression string) {
	t.Helper()
	compiled, err := regexp.Compile("(?m)" + expression)
	if err != nil {
		t.Fatalf("%q: %v", expression, err)
	}
	if last := s.commands[len(s.commands)-1]; last != nil {
		last.prints = append(last.prints, compiled)
	}
}

// readSession reads what capstan is asked and answers in a session, whose commands
// read files of its folder.
func readSession(t *testing.T, text, folder string) script {
	t.Helper()
	s := script{}
	files, err := filepath.Glob(folder + "/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		s.files = append(s.files, readText(t, file))
	}
	for line := range strings.Lines(text) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			s.addCommand(strings.TrimSpace(command))
			continue
		}
		s.lines = append(s.lines, singleSpaced(line))
		if len(s.commands) > 0 {
			last := s.commands[len(s.commands)-1]
			last.lines = append(last.lines, singleSpaced(line))
		}
	}
	return s
}

func singleSpaced(line string) string { return strings.Join(strings.Fields(line), " ") }

// wordShape matches a word of a command, which may have parts in quotes.
func wordShape() *regexp.Regexp { return regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`) }

// splitWords splits a command into words, without their quotes and without a comment
// at the end.
func splitWords(command string) []string {
	part := regexp.MustCompile(`'([^']*)'|"([^"]*)"|([^\s'"]+)`)
	var words []string
	for _, word := range wordShape().FindAllString(command, -1) {
		if strings.HasPrefix(word, "#") {
			break
		}
		words = append(words, part.ReplaceAllString(word, "$1$2$3"))
	}
	return words
}

// normalWords returns the words of a command without what only tests type: their image
// and kubeconfig, how long they wait, and where their files are. What `capstan token
// create --print-register-command` has printed is written out.
func normalWords(command string) []string {
	for _, change := range []struct{ old, new string }{
		{`^exec `, ``},
		{` 2>&1.*`, ``},
		{`\$(?:RELEASED/bin|NEXT)/`, ``},
		{`\$\((?:cat \$WORK/register\S*|capstan token create [^)]*)\)`, `capstan register ADDRESS --token TOKEN --discovery-token-ca-cert-hash HASH`},
		{` --image \$IMAGE_NAME`, ``},
		{` --cluster-kubeconfig \$KUBECONFIG`, ``},
		{` --(?:timeout|wait)[ =]\$PATIENCE`, ``},
		{`\$(?:WORK|ROOT)/`, ``},
	} {
		command = regexp.MustCompile(change.old).ReplaceAllString(command, change.new)
	}
	var words []string
	for _, word := range splitWords(command) {
		if strings.ContainsAny(word[:1], ">|&") {
			break
		}
		if name, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(name, "--") {
			words = append(words, name, value)
			continue
		}
		words = append(words, word)
	}
	return words
}

// matches reports whether a command of a guide is one that a test types: the same words,
// flags in any order, where a name in angle brackets stands for anything but a flag.
func (c *typedCommand) matches(guide []string) bool {
	left := slices.Clone(c.words)
	var open []string
	for _, word := range guide {
		if i := slices.Index(left, word); i >= 0 {
			left = slices.Delete(left, i, i+1)
		} else {
			open = append(open, word)
		}
	}
	if len(open) != len(left) {
		return false
	}
	for _, word := range open {
		parts := regexp.MustCompile(`<[^>]+>`).Split(word, -1)
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		shape := regexp.MustCompile(`^` + strings.Join(parts, `.+`) + `$`)
		i := slices.IndexFunc(left, func(typed string) bool {
			return len(parts) > 1 && !strings.HasPrefix(typed, "-") && shape.MatchString(typed)
		})
		if i < 0 {
			return false
		}
		left = slices.Delete(left, i, i+1)
	}
	return true
}
