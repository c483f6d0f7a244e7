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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// clientsOf returns client-go's client of a member that answers so.
func clientsOf(t *testing.T, answer http.HandlerFunc) kubernetes.Interface {
	t.Helper()
	server, ca := member(t, answer)
	transport := transportTo(t, Endpoint{URL: server.URL, CA: ca}, toLocal())
	clients, err := kubernetes.NewForConfig(&rest.Config{
		Host: server.URL, Transport: transport, ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"},
	})
	if err != nil {
		t.Fatal(err)
	}
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
		"a text":                  {node: node, nodes: list("NodeList", node), pods: list("PodList", pod)},
		"a number":                {node: number, nodes: list("NodeList", number), pods: list("PodList", strings.ReplaceAll(pod, `"`+hours+`"`, hours))},
		"an escaped text":         {node: escaped, nodes: list("NodeList", escaped), pods: list("PodList", pod)},
		"protobuf that is not it": {contentType: "application/vnd.kubernetes.protobuf", node: node, nodes: node, pods: pod},
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
	// A field that is there twice is what it is the last time, and was never something else.
	read, err := clientsOf(t, says("application/json", twice)).CoreV1().Nodes().Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil || read.Status.Capacity.Cpu().String() != "1" {
		t.Errorf("a field that is there twice: %v, %v", read, err)
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	list, err := nodes.List(t.Context(), metav1.ListOptions{})
	if err != nil || list.ResourceVersion != "7" {
		t.Fatalf("the list is %v, %v", list, err)
	}
	found = append(append(found, *one), list.Items...)
	watch, err := nodes.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
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

func TestOnlyNodesAndPodsHaveQuantities(t *testing.T) {
	for path, want := range map[string]bool{
		"/api/v1/nodes":                   true,
		"/api/v1/nodes?watch=true":        true,
		"/clusters/one/api/v1/nodes/n1":   true,
		"/api/v1/pods?limit=500":          true,
		"/api/v1/namespaces/a/pods":       true,
		"/api/v1/namespaces/a/pods/b":     true,
		"/api/v1/namespaces/a/pods/b/log": false,
		"/api/v1/namespaces/nodes":        false,
		"/api/v1/configmaps":              false,
		"/apis/metrics.k8s.io/v1/pods":    false,
		"/api/v1":                         false,
	} {
		for accept, has := range map[string]bool{
			"": want, "application/vnd.kubernetes.protobuf,application/json": want,
			"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1": false,
		} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://member"+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Accept", accept)
			if got := quantitiesIn(request) != nil; got != has {
				t.Errorf("%s as %q has quantities: %t, want %t", path, accept, got, has)
			}
		}
	}
}
