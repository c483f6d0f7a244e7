// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package transcript reads what tests type, from walk-throughs and sessions, so that it can be compared with what
// guides tell a user to type.
package transcript

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

// TypedCommand is a command that a test types, with what the test expects it to print.
type TypedCommand struct {
	words []string
	// Prints are expressions that a line of the output has to match.
	Prints []*regexp.Regexp
	// Lines are lines of the output, with single spaces.
	Lines []string
}

// Script is a walk-through or a session: what a test types.
type Script struct {
	// Guides are the sorted names of the guides that it says it plays.
	Guides   []string
	Commands []*TypedCommand
	// Files are the texts of the files that its commands read.
	Files []string
	// Lines are all lines that it prints, with single spaces. Those of a walk-through are not known.
	Lines []string
	// background are the commands that run beside others, by the names that they have.
	background map[string]*TypedCommand
	// named are commands that are in variables of the environment.
	named map[string]string
}

// ReadScript reads a walk-through (.txtar) or a session of capstan (.session).
func ReadScript(path string) (Script, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Script{}, fmt.Errorf("reading what a test types: %w", err)
	}
	if strings.HasSuffix(path, ".session") {
		return readSession(string(text), filepath.Dir(path))
	}
	archive := txtar.Parse(text)
	s := Script{Guides: namedGuides(string(archive.Comment)), background: map[string]*TypedCommand{}, named: map[string]string{}}
	for _, file := range archive.Files {
		s.Files = append(s.Files, string(file.Data))
	}
	for line := range strings.Lines(string(archive.Comment)) {
		if err := s.addStep(strings.TrimSpace(line)); err != nil {
			return Script{}, fmt.Errorf("reading %s: %w", path, err)
		}
	}
	return s, nil
}

// namedGuides returns the guides that the first comment of a walk-through names.
func namedGuides(comment string) []string {
	head, _, _ := strings.Cut(comment, "\n\n")
	var names []string
	for _, match := range regexp.MustCompile(`docs/guides/([a-z-]+\.md)`).FindAllStringSubmatch(head, -1) {
		names = append(names, match[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// addStep adds a line of a walk-through: a command, or what the one before has to print.
func (s *Script) addStep(line string) error {
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
		return s.expectLine(splitWords(line)[1])
	case strings.HasPrefix(line, "wait "):
		s.Commands = append(s.Commands, s.background[splitWords(line)[1]])
	case !negated && (strings.HasPrefix(line, "stdout ") || strings.HasPrefix(line, "stderr ")):
		return s.expectLine(splitWords(line)[1])
	}
	return nil
}

// addCommand adds a command, as a user would type it.
func (s *Script) addCommand(command string) {
	added := &TypedCommand{}
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
	added.words = NormalWords(command)
	s.Commands = append(s.Commands, added)
}

// expectLine adds an expression to what the last command has to print.
func (s *Script) expectLine(expression string) error {
	compiled, err := regexp.Compile("(?m)" + expression)
	if err != nil {
		return fmt.Errorf("what a command is to print: %w", err)
	}
	if last := s.Commands[len(s.Commands)-1]; last != nil {
		last.Prints = append(last.Prints, compiled)
	}
	return nil
}

// readSession reads what capstan is asked and answers in a session, whose commands
// read files of its folder.
func readSession(text, folder string) (Script, error) {
	s := Script{}
	files, err := filepath.Glob(folder + "/*.yaml")
	if err != nil {
		return Script{}, fmt.Errorf("looking for the files of a session: %w", err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return Script{}, fmt.Errorf("reading a file of a session: %w", err)
		}
		s.Files = append(s.Files, string(content))
	}
	for line := range strings.Lines(text) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			s.addCommand(strings.TrimSpace(command))
			continue
		}
		s.Lines = append(s.Lines, SingleSpaced(line))
		if len(s.Commands) > 0 {
			last := s.Commands[len(s.Commands)-1]
			last.Lines = append(last.Lines, SingleSpaced(line))
		}
	}
	return s, nil
}

// SingleSpaced returns a line with single spaces between its words, and none around them.
func SingleSpaced(line string) string { return strings.Join(strings.Fields(line), " ") }

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

// NormalWords returns the words of a command without what only tests type: their image
// and kubeconfig, how long they wait, and where their files are. What `capstan token
// create --print-register-command` has printed is written out.
func NormalWords(command string) []string {
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

// MatchesGuide reports whether a command of a guide is one that a test types: the same words,
// flags in any order, where a name in angle brackets stands for anything but a flag.
func (c *TypedCommand) MatchesGuide(guide []string) bool {
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
