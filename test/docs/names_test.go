// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs compares pages in docs with the code that they are about.
package docs

import (
	"errors"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// document is a page for people, and the folder from which its links go.
type document struct{ path, text string }

// pages returns the pages of the repository, but for the changelog, which is about
// what was.
func pages(t *testing.T) []document {
	t.Helper()
	var all []document
	for _, start := range []string{"README.md", "docs", "deploy"} {
		err := filepath.WalkDir(filepath.Join(root, start), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".md") {
				return err
			}
			text, err := os.ReadFile(path)
			all = append(all, document{path: path, text: string(text)})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// found returns what the first group of an expression matches in a page.
func (p document) found(expression *regexp.Regexp) []string {
	names := map[string]bool{}
	for _, match := range expression.FindAllStringSubmatch(p.text, -1) {
		names[match[1]] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// atLeast fails the test if hardly anything was looked at: then the expression that
// finds it is wrong.
func atLeast(t *testing.T, few, looked int) {
	t.Helper()
	if looked < few {
		t.Errorf("only %d names were found in the pages: look at the expression that finds them", looked)
	}
}

func TestLinksOfThePagesLeadSomewhere(t *testing.T) {
	link, looked := regexp.MustCompile(`\]\(([^)\s]+)\)`), 0
	headings := map[string]map[string]bool{}
	code := regexp.MustCompile("`[^`\n]*`")
	for _, p := range pages(t) {
		p.text = code.ReplaceAllString(p.text, "code")
		for _, target := range p.found(link) {
			parsed, err := url.Parse(target)
			if err != nil || parsed.Scheme != "" {
				continue
			}
			looked++
			file := p.path
			if parsed.Path != "" {
				file = filepath.Join(filepath.Dir(p.path), parsed.Path)
			}
			info, err := os.Stat(file)
			if err != nil {
				t.Errorf("%s: %s leads nowhere", p.path, target)
				continue
			}
			if parsed.Fragment == "" || info.IsDir() || !strings.HasSuffix(file, ".md") {
				continue
			}
			if headings[file] == nil {
				headings[file] = anchors(t, file)
			}
			if !headings[file][parsed.Fragment] {
				t.Errorf("%s: %s has no heading for #%s", p.path, file, parsed.Fragment)
			}
		}
	}
	atLeast(t, 300, looked)
}

// anchors returns the fragments that GitHub gives the headings of a page.
func anchors(t *testing.T, file string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dropped := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	all := map[string]bool{}
	for _, heading := range (document{text: string(text)}).found(regexp.MustCompile(`(?m)^#+ +(.+?) *$`)) {
		all[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")] = true
	}
	return all
}

func TestFilesOfThePagesExist(t *testing.T) {
	// A path of ours begins with a folder at the top, and has no variable part.
	file := regexp.MustCompile("`((?:apis|bundle|cmd|config|deploy|docs|hack|internal|operators|test|\\.ci|\\.github)/[A-Za-z0-9._/-]+)`")
	placeholder := regexp.MustCompile(`[A-Z]{4}`) // VERSION
	looked := 0
	for _, p := range pages(t) {
		for _, name := range p.found(file) {
			looked++
			if placeholder.MatchString(name) || slices.Contains(elsewhere(), name) {
				continue
			}
			if !exists(name) {
				t.Errorf("%s: there is no %s", p.path, name)
			}
		}
	}
	atLeast(t, 150, looked)
}

// elsewhere are names that look like paths of ours.
func elsewhere() []string {
	return []string{
		"deploy/web",                                            // a Deployment, for kubectl
		"operators/capstan-hub", "operators/capstan-klusterlet", // in the repositories of OperatorHub
	}
}

// exists reports whether there is a file or folder, or for a test's name after the
// last dot, the folder of its package.
func exists(name string) bool {
	name = strings.TrimSuffix(name, "/...")
	if _, err := os.Stat(filepath.Join(root, name)); err == nil {
		return true
	}
	folder, test, ok := strings.Cut(name, ".Test")
	if !ok || test == "" {
		return false
	}
	_, err := os.Stat(filepath.Join(root, folder))
	return err == nil
}

func TestTestsOfThePagesExist(t *testing.T) {
	known := goNames(t, regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`))
	looked := 0
	for _, p := range pages(t) {
		for _, name := range p.found(regexp.MustCompile(`\b(Test[A-Z][A-Za-z0-9]+)\b`)) {
			looked++
			if !known[name] {
				t.Errorf("%s: there is no %s", p.path, name)
			}
		}
	}
	atLeast(t, 100, looked)
}

// TestFlagsOfThePagesExist takes a flag for one of ours, or of a program that is
// started by ours, if the sources or scripts have its name.
func TestFlagsOfThePagesExist(t *testing.T) {
	known := goNames(t, regexp.MustCompile(`["' =]-{0,2}([a-z][a-z0-9-]+)["' =]`))
	// Programs that users have, which nothing of ours calls, have flags as well.
	for _, names := range map[string][]string{
		"age":            {"decrypt"},
		"clusteradm":     {"use-bootstrap-token"},
		"cobra":          {"no-descriptions"}, // of the command completion
		"cosign":         {"certificate-identity-regexp", "certificate-oidc-issuer", "insecure-ignore-tlog", "local-image"},
		"etcdctl":        {"command-timeout"},
		"helm":           {"set-file", "take-ownership"},
		"kube-apiserver": {"etcd-compaction-interval"},
		"kubectl":        {"allow-missing-template-keys", "cascade", "resource-name", "show-managed-fields"},
		"oras":           {"from-oci-layout"},
		"sha256sum":      {"ignore-missing"},
	} {
		for _, name := range names {
			known[name] = true
		}
	}
	looked := 0
	for _, p := range pages(t) {
		for _, name := range p.found(regexp.MustCompile("(?m)(?:^|[ `(])--([a-z][a-z0-9-]+)")) {
			looked++
			if !known[name] {
				t.Errorf("%s: nothing in the sources has a flag --%s", p.path, name)
			}
		}
	}
	atLeast(t, 300, looked)
}

// goNames returns what the first group of an expression matches in Go files, scripts
// and makefiles.
func goNames(t *testing.T, expression *regexp.Regexp) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		skipped := path == filepath.Join(root, "docs") || slices.Contains([]string{".git", "bin", "dist"}, entry.Name())
		if entry.IsDir() && skipped {
			return filepath.SkipDir
		}
		if entry.IsDir() || !slices.Contains([]string{".go", ".sh", ".mk", ".txtar", ".yaml", ".tpl"}, filepath.Ext(path)) {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, match := range expression.FindAllSubmatch(text, -1) {
			names[string(match[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestCommitsOfThePagesExist asks git for each commit that a page names as one of
// this repository.
func TestCommitsOfThePagesExist(t *testing.T) {
	shallow, err := exec.CommandContext(t.Context(), "git", "-C", root, "rev-parse", "--is-shallow-repository").Output()
	if err != nil {
		t.Fatalf("asking git for commits: %v: the tests need a clone", err)
	}
	if strings.TrimSpace(string(shallow)) == "true" {
		t.Fatal("this clone has no history: run 'git fetch --unshallow'")
	}
	commit := regexp.MustCompile(`(?:[Cc]ommits?|and|\() \(?([0-9a-f]{7})\b`)
	looked := 0
	for _, p := range pages(t) {
		if !strings.Contains(strings.ToLower(filepath.Base(p.path)), "performance") {
			continue
		}
		for _, name := range p.found(commit) {
			looked++
			err := exec.CommandContext(t.Context(), "git", "-C", root, "cat-file", "-e", name+"^{commit}").Run()
			if exit := new(exec.ExitError); errors.As(err, &exit) {
				t.Errorf("%s: there is no commit %s", p.path, name)
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	atLeast(t, 6, looked)
}
