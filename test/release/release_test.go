// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

// Package release tests what make release has made: the files that users
// download, and the image on a real cluster.
package release

import (
	"archive/zip"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// made is the directory with the release, and what the Makefile made it of.
type made struct {
	dir, version, image      string
	platforms, architectures []string
}

func fromMake(t *testing.T) made {
	t.Helper()
	m := made{dir: os.Getenv("RELEASE_DIR"), version: os.Getenv("VERSION"), image: os.Getenv("IMAGE_NAME")}
	m.platforms = strings.Fields(os.Getenv("RELEASE_PLATFORMS"))
	for _, platform := range strings.Fields(os.Getenv("RELEASE_IMAGE_PLATFORMS")) {
		m.architectures = append(m.architectures, strings.TrimPrefix(platform, "linux/"))
	}
	if m.dir == "" || m.version == "" || m.image == "" || len(m.platforms) == 0 || len(m.architectures) == 0 {
		t.Fatal("run \"make test-release\": it says which release to test")
	}
	return m
}

func (m made) file(suffix string) string {
	return filepath.Join(m.dir, "capstan-"+m.version+"-"+suffix)
}

func TestTheImageHasStaticExecutablesOfItsPlatform(t *testing.T) {
	m := fromMake(t)
	l := layout(filepath.Join(m.dir, "image"))
	images := l.images(t)
	if len(images) != len(m.architectures) {
		t.Errorf("there are images for %d architectures, want %q", len(images), m.architectures)
	}
	for _, architecture := range m.architectures {
		t.Run(architecture, func(t *testing.T) {
			dir := t.TempDir()
			l.files(t, images[architecture], dir)
			for _, program := range []string{"capstan-manager", "capstan-apiserver"} {
				checkELF(t, filepath.Join(dir, program), architecture)
			}
			certificates, err := os.ReadFile(filepath.Join(dir, "etc/ssl/certs/ca-certificates.crt"))
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(certificates), "BEGIN CERTIFICATE"); n < 100 {
				t.Errorf("there are %d certificates of authorities", n)
			}
		})
	}
}

// checkELF looks at the header: the machine, and that nothing is to be loaded.
func checkELF(t *testing.T, path, architecture string) {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[architecture]
	if file.Machine != want {
		t.Errorf("%s is for %s, want %s", path, file.Machine, want)
	}
	for _, program := range file.Progs {
		if program.Type == elf.PT_INTERP || program.Type == elf.PT_DYNAMIC {
			t.Errorf("%s is not static: it has %s", path, program.Type)
		}
	}
}

func checkMachO(t *testing.T, path, architecture string) {
	t.Helper()
	file, err := macho.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if want := map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}[architecture]; file.Cpu != want {
		t.Errorf("%s is for %s, want %s", path, file.Cpu, want)
	}
}

func checkPE(t *testing.T, path, architecture string) {
	t.Helper()
	file, err := pe.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	want := map[string]uint16{"amd64": pe.IMAGE_FILE_MACHINE_AMD64, "arm64": pe.IMAGE_FILE_MACHINE_ARM64}[architecture]
	if file.Machine != want {
		t.Errorf("%s is for machine %#x, want %#x", path, file.Machine, want)
	}
}

func TestArchivesHaveTheCommandLineOfTheirPlatform(t *testing.T) {
	m := fromMake(t)
	for _, platform := range m.platforms {
		t.Run(platform, func(t *testing.T) {
			system, architecture, _ := strings.Cut(platform, "/")
			dir, archive, program := t.TempDir(), m.file(system+"-"+architecture), "capstan"
			switch system {
			case "windows":
				program = "capstan.exe"
				unzip(t, archive+".zip", dir)
				checkPE(t, filepath.Join(dir, program), architecture)
			case "darwin":
				untar(t, archive+".tar.gz", dir)
				checkMachO(t, filepath.Join(dir, program), architecture)
			default:
				untar(t, archive+".tar.gz", dir)
				checkELF(t, filepath.Join(dir, program), architecture)
			}
			want := []string{"LICENSE", program, "completions/_capstan", "completions/capstan.bash", "completions/capstan.fish", "completions/capstan.ps1"}
			slices.Sort(want)
			if got := names(t, dir); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			completions, err := os.ReadFile(filepath.Join(dir, "completions/capstan.bash"))
			if err != nil || !strings.Contains(string(completions), "capstan __complete") && !strings.Contains(string(completions), "__start_capstan") {
				t.Errorf("the completions for bash are none of capstan (%v)", err)
			}
		})
	}
}

func untar(t *testing.T, archive, dir string) {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	unpack(t, file, dir)
}

func unzip(t *testing.T, archive, dir string) {
	t.Helper()
	reader, err := zip.OpenReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	for _, file := range reader.File {
		content, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, file.Name), file.Mode(), content)
		if err := content.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// names returns the paths of the files below a directory, sorted.
func names(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*", "*/*"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				all = append(all, strings.TrimPrefix(path, dir+"/"))
			}
		}
	}
	slices.Sort(all)
	return all
}

// What installs the image names it by the digest that the layout has.
func TestWhatInstallsTheImageNamesItsDigest(t *testing.T) {
	m := fromMake(t)
	var digest string
	for _, entry := range layout(filepath.Join(m.dir, "image")).read(t, "index.json").Manifests {
		if entry.Annotations["org.opencontainers.image.ref.name"] != "" {
			digest = entry.Digest
		}
	}
	repository, _, _ := strings.Cut(m.image, ":"+m.version)
	want := fmt.Sprintf("%s@%s", repository, digest)
	dir := t.TempDir()
	untar(t, m.file("olm.tar.gz"), dir)
	paths, err := filepath.Glob(filepath.Join(dir, "operators/capstan-*", m.version, "manifests/*.clusterserviceversion.yaml"))
	if err != nil || len(paths) != 2 {
		t.Fatalf("there are bundles %q (%v), want two", paths, err)
	}
	beside, err := filepath.Glob(filepath.Join(dir, "operators/capstan-*/ci.yaml"))
	if err != nil || len(beside) != len(paths) {
		t.Errorf("beside the versions are %q (%v), want a ci.yaml of each package", beside, err)
	}
	for _, path := range append(paths, filepath.Join(m.dir, "RELEASE_NOTES.md"), filepath.Join(m.dir, "image-digest.txt")) {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(content), want) {
			t.Errorf("%s does not name %s", path, want)
		}
	}
}
