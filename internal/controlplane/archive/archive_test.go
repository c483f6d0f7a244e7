// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// ageChunk is how much of a file age encrypts and authenticates at a time, and
// ageOverhead what that adds.
const (
	ageChunk    = 64 << 10
	ageOverhead = 16
)

func testManifest() Manifest {
	return Manifest{
		CreatedBy: "1.2.3", Created: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		Hub: "fleet", Namespace: "fleet-control-plane", KubernetesVersion: "v1.36.3", EtcdRevision: 4711,
	}
}

func newKey(t *testing.T) *age.X25519Identity {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	expect.NoError(t, err)
	return key
}

// written returns an archive with some entries, of which the last takes several
// chunks of age.
func written(t *testing.T, recipients ...age.Recipient) ([]byte, map[string]string) {
	t.Helper()
	random := make([]byte, 3*ageChunk+4711)
	rand.New(rand.NewSource(1)).Read(random)
	contents := map[string]string{"a.json": "{}\n", "empty": "", "secrets/b.json": strings.Repeat("b", tarBlock), "c.snapshot": string(random)}
	var file bytes.Buffer
	w, err := NewWriter(&file, testManifest(), recipients...)
	expect.NoError(t, err)
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		expect.NoError(t, w.AddEntry(name, int64(len(contents[name])), strings.NewReader(contents[name])))
	}
	expect.NoError(t, w.Close())
	return file.Bytes(), contents
}

func open(file []byte, keys ...age.Identity) (*Archive, error) {
	return OpenArchive(bytes.NewReader(file), int64(len(file)), keys...)
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	first, second := newKey(t), newKey(t)
	file, contents := written(t, first.Recipient(), second.Recipient())
	if bytes.Contains(file, []byte("4711")) || bytes.Contains(file, []byte("fleet")) {
		t.Error("the file is not encrypted")
	}
	for _, key := range []age.Identity{first, second} {
		a, err := open(file, key)
		expect.NoError(t, err)
		want := testManifest()
		want.Format, want.Version = Format, Version
		if diff := cmp.Diff(want, a.Manifest); diff != "" {
			t.Errorf("the manifest is another one (-want +got):\n%s", diff)
		}
		if len(a.Entries) != len(contents) {
			t.Errorf("there are %d entries, want %d", len(a.Entries), len(contents))
		}
		for name, want := range contents {
			got, err := io.ReadAll(a.EntryContent(name))
			if err != nil || string(got) != want {
				t.Errorf("%s is not what was written (error %v)", name, err)
			}
		}
		if a.EntryContent("manifest") != nil {
			t.Error("there is content that was not written")
		}
	}
}

func TestToolsReadAnArchiveWithoutCapstan(t *testing.T) {
	key := newKey(t)
	file, contents := written(t, key.Recipient())
	plain, err := age.Decrypt(bytes.NewReader(file), key)
	expect.NoError(t, err)
	var names []string
	reader, last := tar.NewReader(plain), ""
	for header, err := reader.Next(); err == nil; header, err = reader.Next() {
		names = append(names, header.Name)
		content, err := io.ReadAll(reader)
		expect.NoError(t, err)
		last = string(content)
	}
	if want := append(append([]string{"manifest.json"}, slices.Sorted(maps.Keys(contents))...), "sha256sums"); !slices.Equal(names, want) {
		t.Errorf("tar lists %v, want %v", names, want)
	}
	if want := fmt.Sprintf("%x  a.json\n", sha256Sum([]byte(contents["a.json"]))); !strings.Contains(last, want) {
		t.Errorf("sha256sum would not find %q in\n%s", want, last)
	}
}

func TestAFileThatIsCutOffIsRefused(t *testing.T) {
	key := newKey(t)
	file, _ := written(t, key.Recipient())
	header := len(file) - payload(t, file)
	lengths := map[int]bool{}
	for length := 0; length < header+2*tarBlock; length += 16 {
		lengths[length] = true
	}
	for at := header; at < len(file); at += ageChunk + ageOverhead {
		for _, near := range []int{-1, 0, 1, ageOverhead, ageOverhead + 1} {
			lengths[at+near] = true
		}
	}
	for length := header; length < len(file); length += tarBlock {
		lengths[length] = true
	}
	lengths[len(file)-1] = true
	for length := range lengths {
		if a, err := open(file[:min(length, len(file)-1)], key); err == nil || a != nil {
			t.Errorf("a file of %d bytes that was cut off after %d is taken for whole", len(file), length)
		}
	}
}

// payload returns how long what follows age's header is.
func payload(t *testing.T, file []byte) int {
	t.Helper()
	_, rest, found := bytes.Cut(file, []byte("\n--- "))
	if !found {
		t.Fatal("age's header has no end")
	}
	_, rest, _ = bytes.Cut(rest, []byte("\n"))
	return len(rest)
}

func TestAFileThatIsAlteredIsRefused(t *testing.T) {
	key := newKey(t)
	file, _ := written(t, key.Recipient())
	random := rand.New(rand.NewSource(2))
	for range 200 {
		altered, at := bytes.Clone(file), random.Intn(len(file))
		altered[at] ^= 1 << random.Intn(8)
		if _, err := open(altered, key); err == nil {
			t.Errorf("byte %d of %d was altered, and nobody noticed", at, len(file))
		}
	}
	if _, err := open(append(bytes.Clone(file), 0), key); err == nil {
		t.Error("a byte was appended, and nobody noticed")
	}
	begin := len(file) - payload(t, file) + ageOverhead // after the nonce
	chunk := func(n int) []byte {
		return file[begin+n*(ageChunk+ageOverhead) : begin+(n+1)*(ageChunk+ageOverhead)]
	}
	swapped := slices.Concat(file[:begin], chunk(1), chunk(0), file[begin+2*(ageChunk+ageOverhead):])
	if _, err := open(swapped, key); err == nil {
		t.Error("two chunks were swapped, and nobody noticed")
	}
}

func TestARefusalSaysWhy(t *testing.T) {
	key, other := newKey(t), newKey(t)
	file, _ := written(t, key.Recipient())
	manifest := func(change func(*Manifest)) string {
		m := testManifest()
		m.Format, m.Version = Format, Version
		change(&m)
		text, err := json.Marshal(m)
		expect.NoError(t, err)
		return string(text)
	}
	good := manifest(func(*Manifest) {})
	sums := func(entries ...string) string {
		text := ""
		for i := 0; i < len(entries); i += 2 {
			text += sumLine(sha256Sum([]byte(entries[i+1])), entries[i])
		}
		return text
	}
	packed := func(entries ...string) []byte { return pack(t, key.Recipient(), entries...) }
	cases := map[string]struct {
		file []byte
		want string
	}{
		"nothing":                    {nil, "not encrypted by age"},
		"another file":               {[]byte("apiVersion: v1\nkind: List\n"), "not encrypted by age"},
		"cut off":                    {file[:len(file)-1], "damaged, cut off or altered"},
		"cut off in the header":      {file[:30], "damaged, cut off or altered"},
		"something else in age":      {packed("notes.txt", "hello"), "begins with no manifest"},
		"another format":             {packed("manifest.json", manifest(func(m *Manifest) { m.Format = "other" })), "begins with no manifest"},
		"a newer format":             {packed("manifest.json", manifest(func(m *Manifest) { m.Version = 2 })), "use the release that has written it (1.2.3)"},
		"no list of entries":         {packed("manifest.json", good, "a", "A"), "ends before its last entry"},
		"an entry that is not in it": {packed("manifest.json", good, "a", "A", "sha256sums", sums("manifest.json", good)), "list of entries is not that of its entries"},
		"another entry":              {packed("manifest.json", good, "a", "A", "sha256sums", sums("manifest.json", good, "a", "B")), "list of entries is not that of its entries"},
		"an entry after the end":     {packed("manifest.json", good, "sha256sums", sums("manifest.json", good), "a", "A"), "something follows its last entry"},
		"an entry twice":             {packed("manifest.json", good, "a", "A", "a", "A"), "or twice"},
		"an entry elsewhere":         {packed("manifest.json", good, "../a", "A"), "that no archive has"},
		"an entry at the root":       {packed("manifest.json", good, "/a", "A"), "that no archive has"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a, err := open(c.file, key)
			if err == nil || a != nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q, and no archive", err, c.want)
			}
		})
	}
	if _, err := open(file, other); err == nil || !strings.Contains(err.Error(), "the key does not open it") {
		t.Errorf("with another key the error is %v", err)
	}
}

// pack returns an encrypted tar file with entries of these names and contents.
func pack(t *testing.T, recipient age.Recipient, entries ...string) []byte {
	t.Helper()
	var file bytes.Buffer
	encrypted, err := age.Encrypt(&file, recipient)
	expect.NoError(t, err)
	w := tar.NewWriter(encrypted)
	for i := 0; i < len(entries); i += 2 {
		expect.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: entries[i], Size: int64(len(entries[i+1]))}))
		if _, err := io.WriteString(w, entries[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	expect.NoError(t, w.Close())
	expect.NoError(t, encrypted.Close())
	return file.Bytes()
}

func TestAnEntryHasItsSizeAndAName(t *testing.T) {
	w, err := NewWriter(io.Discard, testManifest(), newKey(t).Recipient())
	expect.NoError(t, err)
	for _, name := range []string{"", ".", "../a", "/a", "a/../b", "a\nb", "manifest.json", "sha256sums"} {
		if err := w.AddEntry(name, 0, strings.NewReader("")); err == nil {
			t.Errorf("an entry %q was written", name)
		}
	}
	if err := w.AddEntry("long", 1, strings.NewReader("12")); err == nil || !strings.Contains(err.Error(), "not of 1 bytes") {
		t.Errorf("more than the size was written: %v", err)
	}
	if err := w.AddEntry("short", 3, strings.NewReader("12")); err == nil {
		t.Error("less than the size was written")
	}
}
