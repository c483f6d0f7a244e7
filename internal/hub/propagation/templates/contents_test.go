// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

func objectOf(name, uid, version, text string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"text": text}}}
	object.SetNamespace(metav1.NamespaceDefault)
	object.SetName(name)
	object.SetUID(types.UID(uid))
	object.SetResourceVersion(version)
	return object
}

func keyOf(name string) Key {
	return Key{Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Name: types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: name}}
}

// TestWhatIsOlderThanWhatIsKnownIsNotRemembered asks for an object in several
// versions.
func TestWhatIsOlderThanWhatIsKnownIsNotRemembered(t *testing.T) {
	contents := NewContentCache(clock.RealClock{})
	contents.putObject(keyOf("a"), objectOf("a", "1", "20", "new"))
	contents.putObject(keyOf("a"), objectOf("a", "1", "10", "old")) // an answer that was slower
	for name, test := range map[string]struct {
		uid, version string
		want         bool
	}{
		"an older one is known":   {"1", "10", true},
		"the same is known":       {"1", "20", true},
		"a newer one is known":    {"1", "30", false},
		"another object is known": {"2", "20", false},
		"no number":               {"1", "x", false},
	} {
		object := contents.getSince(t.Context(), keyOf("a"), objectOf("a", test.uid, test.version, ""))
		if (object != nil) != test.want {
			t.Errorf("%s: remembered %t, want %t", name, object != nil, test.want)
		}
		if object == nil {
			continue
		}
		if text, _, _ := unstructured.NestedString(object.Object, "data", "text"); text != "new" {
			t.Errorf("%s: remembered is %q", name, text)
		}
	}
	contents.putObject(keyOf("a"), objectOf("a", "2", "5", "of another object of the name"))
	if contents.getSince(t.Context(), keyOf("a"), objectOf("a", "2", "5", "")) == nil {
		t.Error("an object that came in the place of another is not remembered")
	}
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	contents, text := NewContentCache(clock.RealClock{}), strings.Repeat("x", 10_000)
	const objects = 1000
	for i := range objects {
		name := fmt.Sprint(i)
		contents.putObject(keyOf(name), objectOf(name, name, "1", text))
		contents.putObject(keyOf("again"), objectOf("again", "a", fmt.Sprint(i+1), text))
	}
	if contents.bytes > contentBytesMax || len(contents.order) > 2*len(contents.objects)+1 {
		t.Errorf("%d bytes of %d objects are remembered, in %d turns", contents.bytes, len(contents.objects), len(contents.order))
	}
	last := fmt.Sprint(objects - 1)
	if contents.getSince(t.Context(), keyOf(last), objectOf(last, last, "1", "")) == nil || contents.getSince(t.Context(), keyOf("0"), objectOf("0", "0", "1", "")) != nil {
		t.Error("the last ones are to be remembered, and the first are not")
	}
	contents.putObject(keyOf("large"), objectOf("large", "l", "1", strings.Repeat("x", contentBytesMax/4)))
	if contents.getSince(t.Context(), keyOf("large"), objectOf("large", "l", "1", "")) != nil || len(contents.objects) < 2 {
		t.Error("a large object is remembered in the place of many")
	}
}

// TestWhatIsLongAgoIsForgotten looks at what is remembered of two objects, one of
// which is read again later.
func TestWhatIsLongAgoIsForgotten(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	contents := NewContentCache(clk)
	contents.putObject(keyOf("once"), objectOf("once", "o", "1", "text"))
	contents.putObject(keyOf("again"), objectOf("again", "a", "1", "text"))
	clk.Step(contentAgeMax)
	contents.putObject(keyOf("again"), objectOf("again", "a", "2", "text"))
	clk.Step(time.Second)
	contents.sweepExpired()
	if contents.getSince(t.Context(), keyOf("once"), objectOf("once", "o", "1", "")) != nil || contents.getSince(t.Context(), keyOf("again"), objectOf("again", "a", "2", "")) == nil {
		t.Error("what was read last is to be remembered, and nothing else")
	}
	clk.Step(contentAgeMax)
	contents.sweepExpired()
	if len(contents.objects)+len(contents.order)+contents.bytes != 0 {
		t.Errorf("%d bytes of %d objects are remembered", contents.bytes, len(contents.objects))
	}
}
