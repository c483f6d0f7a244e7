// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// clientsOf returns client-go's client of a member that answers so.
func clientsOf(t *testing.T, answer http.HandlerFunc) kubernetes.Interface {
	t.Helper()
	server, ca := member(t, answer)
	transport := transportTo(t, Endpoint{URL: server.URL, CA: ca}, toLocal())
	clients, err := kubernetes.NewForConfig(&rest.Config{
		Host: server.URL, Transport: transport, ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"},
	})
	expect.NoError(t, err)
	return clients
}

func says(contentType, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, text)
	}
}

// TestNoQuantityOfAMemberIsParsedForHours has members answer what client-go would parse
// for hours: the test would not end.
func TestNoQuantityOfAMemberIsParsedForHours(t *testing.T) {
	const hours = "1e-2000000000"
	node := fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","status":{"capacity":{"cpu":%q}}}`, hours)
	twice := fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","status":{"capacity":{"cpu":%q,"cpu":"1"},"capacity":{"cpu":"1"}}}`, hours)
	number := strings.ReplaceAll(node, `"`+hours+`"`, hours)
	escaped := strings.ReplaceAll(node, "1e-", `\u0031\u0065-`)
	pod := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"resources":{"requests":{"cpu":%q}}}]}}`, hours)
	list := func(kind, item string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"items":[%s]}`, kind, item)
	}
	cases := map[string]struct{ contentType, node, nodes, pods string }{
		"a text":                      {node: node, nodes: list("NodeList", node), pods: list("PodList", pod)},
		"a number":                    {node: number, nodes: list("NodeList", number), pods: list("PodList", strings.ReplaceAll(pod, `"`+hours+`"`, hours))},
		"an escaped text":             {node: escaped, nodes: list("NodeList", escaped), pods: list("PodList", pod)},
		"a field that is there twice": {node: twice, nodes: list("NodeList", twice), pods: list("PodList", pod)},
		"protobuf that is not it":     {contentType: "application/vnd.kubernetes.protobuf", node: node, nodes: node, pods: pod},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			contentType := c.contentType
			if contentType == "" {
				contentType = "application/json"
			}
			if _, err := clientsOf(t, says(contentType, c.node)).CoreV1().Nodes().Get(t.Context(), "one", metav1.GetOptions{}); err == nil {
				t.Error("the node was read")
			}
			if _, err := clientsOf(t, says(contentType, c.nodes)).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil {
				t.Error("the nodes were read")
			}
			if _, err := clientsOf(t, says(contentType, c.pods)).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err == nil {
				t.Error("the pods were read")
			}
			event := `{"type":"ADDED","object":` + c.node + "}"
			if watch, err := clientsOf(t, says(contentType, event)).CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{}); err == nil {
				for event := range watch.ResultChan() {
					if _, is := event.Object.(*corev1.Node); is {
						t.Errorf("the watch tells %+v", event)
					}
				}
			}
		})
	}
}

// TestNoQuantityOfAHubIsParsedForHours has a hub tell of clusters what would be parsed for
// hours.
func TestNoQuantityOfAHubIsParsedForHours(t *testing.T) {
	for path, item := range map[string]string{
		"/apis/cluster.open-cluster-management.io/v1/managedclusters":     `{"status":{"capacity":{"cpu":"1e-2000000000"}}}`,
		"/apis/cluster.open-cluster-management.io/v1/managedclusters/one": `{"status":{"capacity":{"cpu":"1e-2000000000"}}}`,
		"/apis/fleet.capstan.io/v1alpha1/clusterconnections":              `{"status":{"resourceSummary":{"allocatable":{"cpu":"1e-2000000000"}}}}`,
	} {
		answer := item
		if !strings.HasSuffix(path, "/one") {
			answer = `{"items":[` + item + `]}`
		}
		server, ca := member(t, says("application/json", answer))
		transport := transportTo(t, Endpoint{URL: server.URL, CA: ca}, toLocal())
		if taken, err := take(t, transport, server.URL+path); err == nil || taken != 0 {
			t.Errorf("%s: took %d bytes with error %v", path, taken, err)
		}
	}
}

func TestWhatHasGoodQuantitiesIsReadAsItIs(t *testing.T) {
	big := int64(1)<<62 + 1
	node := corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "one", Generation: big, Labels: map[string]string{"commit": "1e2000000000", "text": "<&>"}},
		Status: corev1.NodeStatus{Capacity: corev1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("16Gi")}},
	}
	text, err := json.Marshal(node)
	expect.NoError(t, err)
	answer := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.Contains(r.Header.Get("Accept"), "protobuf"):
			t.Errorf("the member may answer in %q", r.Header.Get("Accept"))
		case r.URL.Query().Get("watch") != "":
			_, _ = fmt.Fprintf(w, `{"type":"ADDED","object":%[1]s}{"type":"MODIFIED","object":%[1]s}`, text)
		case strings.HasSuffix(r.URL.Path, "/one"):
			_, _ = w.Write(text)
		default:
			_, _ = fmt.Fprintf(w, `{"apiVersion":"v1","kind":"NodeList","metadata":{"resourceVersion":"7"},"items":[%[1]s,%[1]s]}`, text)
		}
	}
	nodes := clientsOf(t, answer).CoreV1().Nodes()
	var found []corev1.Node
	one, err := nodes.Get(t.Context(), "one", metav1.GetOptions{})
	expect.NoError(t, err)
	list, err := nodes.List(t.Context(), metav1.ListOptions{})
	if err != nil || list.ResourceVersion != "7" {
		t.Fatalf("the list is %v, %v", list, err)
	}
	found = append(append(found, *one), list.Items...)
	watch, err := nodes.Watch(t.Context(), metav1.ListOptions{})
	expect.NoError(t, err)
	for range 2 {
		event := <-watch.ResultChan()
		seen, is := event.Object.(*corev1.Node)
		if !is {
			t.Fatalf("the watch tells %+v", event)
		}
		found = append(found, *seen)
	}
	watch.Stop()
	for i := range found {
		found[i].TypeMeta = node.TypeMeta // which clients leave out of what they read
		if diff := cmp.Diff(node, found[i]); diff != "" {
			t.Errorf("(-answered +read):\n%s", diff)
		}
	}
	if len(found) != 5 {
		t.Errorf("read %d nodes, want 5", len(found))
	}
}

// TestWhatWasNotAskedForIsNotParsedForHours has members answer other kinds than they were
// asked for, with other codes, and to what is written: the test would not end.
func TestWhatWasNotAskedForIsNotParsedForHours(t *testing.T) {
	const pods = `{"apiVersion":"v1","kind":"PodList","items":[{"spec":{"containers":[{"resources":{"requests":{"cpu":"1e-2000000000"}}}]}}]}`
	const quota = `{"spec":{"hard":{"pods":"1e-2000000000"}},"apiVersion":"v1","kind":"ResourceQuota"}`
	requests := map[string]func(kubernetes.Interface) error{
		"reading an object": func(c kubernetes.Interface) error {
			_, err := c.CoreV1().Nodes().Get(t.Context(), "one", metav1.GetOptions{})
			return err
		},
		"reading what has no quantities": func(c kubernetes.Interface) error {
			_, err := c.CoreV1().ConfigMaps("a").Get(t.Context(), "b", metav1.GetOptions{})
			return err
		},
		"listing": func(c kubernetes.Interface) error {
			_, err := c.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
			return err
		},
		"creating": func(c kubernetes.Interface) error {
			_, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{}, metav1.CreateOptions{})
			return err
		},
		"patching": func(c kubernetes.Interface) error {
			_, err := c.CoreV1().ConfigMaps("a").Patch(t.Context(), "b", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
			return err
		},
		"deleting": func(c kubernetes.Interface) error {
			return c.CoreV1().ConfigMaps("a").Delete(t.Context(), "b", metav1.DeleteOptions{})
		},
		"watching": func(c kubernetes.Interface) error {
			_, err := c.CoreV1().ConfigMaps("a").Watch(t.Context(), metav1.ListOptions{})
			return err
		},
	}
	for name, request := range requests {
		for _, code := range []int{200, 201, 202, 206, 400, 403, 404, 409, 410, 500, 504} {
			for _, answer := range []string{pods, quota} {
				err := request(clientsOf(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(code)
					_, _ = io.WriteString(w, answer)
				}))
				if err == nil && (code != http.StatusOK || name != "watching") { // whose events are read later
					t.Errorf("%s: an answer with code %d was read", name, code)
				}
			}
		}
	}
	event := fmt.Sprintf(`{"type":"ERROR","object":%s}`, quota)
	watch, err := clientsOf(t, says("application/json", event)).CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{})
	expect.NoError(t, err)
	for event := range watch.ResultChan() {
		if _, is := event.Object.(*corev1.ResourceQuota); is {
			t.Errorf("the watch tells %+v", event)
		}
	}
}

// TestANumberThatIsNoQuantityIsRead has a member answer what looks like a hostile quantity
// where no kind has one.
func TestANumberThatIsNoQuantityIsRead(t *testing.T) {
	answer := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"commit":"1e2000000000"}},"data":{"cpu":"1e-2000000000"}}`
	read, err := clientsOf(t, says("application/json", answer)).CoreV1().ConfigMaps("a").Get(t.Context(), "b", metav1.GetOptions{})
	if err != nil || read.Data["cpu"] != "1e-2000000000" || read.Labels["commit"] != "1e2000000000" {
		t.Errorf("read %+v, %v", read, err)
	}
}
