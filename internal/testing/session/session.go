// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/cli"
	"github.com/capstan-io/capstan/internal/server/version"
	"github.com/capstan-io/capstan/internal/testing/playedhub"
)

// age is how old everything is that a session loads.
const age = 72 * time.Hour

// PlaySession plays a session and returns it with the answers that there were.
func PlaySession(t testing.TB, w *playedhub.PlayedHub, session string) string {
	t.Helper()
	var played strings.Builder
	answers := false
	for line := range strings.Lines(session) {
		text := strings.TrimSpace(line)
		command, isCommand := strings.CutPrefix(text, "$ ")
		directive, isDirective := strings.CutPrefix(text, "> ")
		switch {
		case isCommand:
			played.WriteString(line)
			played.WriteString(runCommand(t, w, command))
			answers = true
		case isDirective:
			happens(t, w, directive)
			played.WriteString(line)
		case strings.HasPrefix(text, "# ") && answers:
			played.WriteString("\n" + line)
			answers = false
		case !answers:
			played.WriteString(line)
		}
	}
	return played.String()
}

// happens does what a directive says.
func happens(t testing.TB, w *playedhub.PlayedHub, directive string) {
	t.Helper()
	words := strings.Fields(directive)
	switch {
	case len(words) == 2 && words[0] == "load":
		w.LoadFile(t, words[1])
	case len(words) >= 4 && words[0] == "request": // request NAME CLUSTER/AGENT USER [ORGANIZATION...]
		cluster, agent, _ := strings.Cut(words[2], "/")
		w.RequestCertificate(t, words[1], cluster, agent, words[3], words[4:]...)
	case len(words) == 2 && words[0] == "heartbeat":
		w.CreateLease(t, words[1])
	case len(words) == 2 && words[0] == "joins":
		t.Cleanup(w.PlayJoin(t, words[1]))
	case len(words) >= 2 && words[0] == "chosen": // chosen NAMESPACE/PLACEMENT [CLUSTER...]
		namespace, placement, _ := strings.Cut(words[1], "/")
		awaitChosen(t, w, namespace, placement, words[2:])
	default:
		if !rolls(t, w, directive) && !propagates(t, w, directive) && !backsUp(t, w, directive) {
			t.Fatalf("there is no directive %q", directive)
		}
	}
}

// awaitChosen waits until the placement controller has looked at a Placement as it is,
// and has chosen these clusters.
func awaitChosen(t testing.TB, w *playedhub.PlayedHub, namespace, name string, want []string) {
	t.Helper()
	playedhub.Eventually(t, func() error {
		p := &clusterv1beta1.Placement{}
		if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, p); err != nil {
			return err
		}
		seen := slices.ContainsFunc(p.Status.Conditions, func(c metav1.Condition) bool { return c.ObservedGeneration == p.Generation })
		decisions := &clusterv1beta1.PlacementDecisionList{}
		if err := w.Client.List(t.Context(), decisions, client.InNamespace(namespace), client.MatchingLabels{clusterv1beta1.LabelPlacement: name}); err != nil {
			return err
		}
		got := []string{}
		for _, d := range decisions.Items {
			for _, decision := range d.Status.Decisions {
				got = append(got, decision.ClusterName)
			}
		}
		slices.Sort(got)
		if !seen || !slices.Equal(got, want) {
			return fmt.Errorf("placement %s/%s has chosen %v, want %v (conditions %+v)", namespace, name, got, want, p.Status.Conditions)
		}
		return nil
	})
}

// runCommand runs one command as a user would, and returns what a terminal shows.
func runCommand(t testing.TB, w *playedhub.PlayedHub, command string) string {
	t.Helper()
	words := fields(command)
	for i, word := range words {
		if strings.HasSuffix(word, ".kubeconfig") {
			words[i] = memberKubeconfig(w)
		}
		switch {
		case strings.HasSuffix(word, ".yaml"):
			words[i] = filepath.Join("testdata", word)
		case strings.HasSuffix(word, ".backup"), strings.HasSuffix(word, ".txt"):
			words[i] = ownPath(w, word)
		case word == exampleRecipient:
			words[i] = w.Recipient
		}
	}
	var out bytes.Buffer
	t.Setenv("KUBECONFIG", w.Kubeconfig)
	code := cli.RunCommandLine(t.Context(), cli.CommandLine{
		As: words[0], Args: words[1:],
		Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out},
		Clock:   testingclock.NewFakePassiveClock(time.Now().Add(age)),
	})
	if code != 0 {
		fmt.Fprintf(&out, "[exit %d]\n", code)
	}
	return SteadyAnswer(w, out.String())
}

// SteadyAnswer takes out of an answer what is another one each time.
func SteadyAnswer(w *playedhub.PlayedHub, answer string) string {
	answer = regexp.MustCompile(`https://127\.0\.0\.1:\d+/?`).ReplaceAllString(answer, "https://hub.example.com:6443")
	answer = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(answer, "hub.example.com:6443")
	answer = strings.ReplaceAll(answer, filepath.Dir(w.Kubeconfig), "/home/me")
	answer = strings.ReplaceAll(answer, version.SemanticVersion(), "1.2.3")
	answer = strings.ReplaceAll(answer, "testdata/", "")
	for pattern, with := range map[string]string{
		`(?m)^ • .*  \.\.\. .+\n`:                                      "", // what a step waits for
		`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z`:                        "2026-01-01T00:00:00Z",
		`(cluster ID |the UID )[0-9a-f-]{36}`:                          "${1}00000000-0000-0000-0000-000000000000",
		`(?m)^(Kubernetes Version: v).*$`:                              "${1}1.36.3",
		`(?m)(uid: |"uid": ")[0-9a-f-]{36}`:                            "${1}00000000-0000-0000-0000-000000000000",
		`(resourceVersion: "|"resourceVersion": ")[0-9]+`:              "${1}1",
		`((?:Timestamp|TransitionTime)"?: "?)[0-9]{4}-[-0-9T:]+Z`:      "${1}2026-01-01T00:00:00Z",
		`ca-cert-hash sha256:[0-9a-f]{64}`:                             "ca-cert-hash sha256:" + strings.Repeat("0", 64),
		`[^" ]*/capstan-kept-[0-9]+`:                                   "/tmp/capstan-kept-1",
		`/home/me/(\S*\.(?:backup|txt))`:                               "$1",
		`((?:at|etcd:) +revision )[0-9]+`:                              "${1}4711", // of etcd
		`(workloadrebalancer\S*/|rebalancer"?: "?)capstan-[a-z0-9]{5}`: "${1}capstan-x7k2p",
		`[0-9]+\.[0-9] MiB`:                                            "1.2 MiB",
	} {
		answer = regexp.MustCompile(pattern).ReplaceAllString(answer, with)
	}
	return answer
}

// fields splits a command into words, as a shell does; quotes are single.
func fields(command string) []string {
	var words []string
	for i, part := range strings.Split(command, "'") {
		if i%2 == 1 {
			words = append(words, part)
			continue
		}
		words = append(words, strings.Fields(part)...)
	}
	return words
}
