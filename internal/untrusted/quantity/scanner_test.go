// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

const hostile = "1e-2000000000"

func placesOfKubernetes(t *testing.T) *Places {
	t.Helper()
	places, err := PlacesOf(clientgoscheme.Scheme)
	expect.NoError(t, err)
	return places
}

// TestScanner has texts come in one piece, and byte by byte.
func TestScanner(t *testing.T) {
	t.Parallel()
	places := placesOfKubernetes(t)
	for text, wants := range map[string]string{
		`{"kind":"Node","status":{"capacity":{"cpu":"H"}}}`:                                           "status.capacity{}: ",
		`{"status":{"capacity":{"cpu":"H"}},"kind":"Node"}`:                                           "status.capacity{}: ",
		`{"status":{"capacity":{"cpu":"H","cpu":"1"}},"status":null}`:                                 "status.capacity{}: ",
		`{"status":{"capacity":{"cpu":H}}}`:                                                           "status.capacity{}: ",
		`{"status":{"capacity":{"cpu":H,"memory":1}}}`:                                                "status.capacity{}: ",
		`{"status" : {"capacity" : {"cpu" : H }}}`:                                                    "status.capacity{}: ",
		`{"status":{"capacity":{"cpu":" H\n"}}}`:                                                      "status.capacity{}: ",
		`{"status":{"capacity":{"cpu":"` + strings.Repeat(" ", 2*tokenMax) + `H"}}}`:                  "status.capacity{}: ",
		`{"status":{"capacity":{"cpu":"0.` + strings.Repeat("0", 1<<20) + `1"}}}`:                     "status.capacity{}: ",
		`{"status":{"capacity":{"cpu":"` + strings.Repeat("9", 300) + `"}}}`:                          "status.capacity{}: ",
		`{"status":{"capacity":{"` + strings.Repeat("k", 2*tokenMax) + `":"H"}}}`:                     "status.capacity{}: ",
		`{"status":{"capacity":{"a":{"b":[1]},"cpu":"H"}}}`:                                           "status.capacity{}: ",
		`{"STATUS":{"ſ":0,"Capacity":{"cpu":"H"}}}`:                                                   "status.capacity{}: ",
		`{"\u0073tatus":{"capacity":{"cpu":"\u0031e-2000000000"}}}`:                                   "status.capacity{}: ",
		`{"a\"{[":"}]\\","status":{"capacity":{"cpu":"H"}}}`:                                          "status.capacity{}: ",
		`{"items":[{},null,{"status":{"capacity":{"cpu":"1"}}},{"status":{"capacity":{"cpu":"H"}}}]}`: "items[].status.capacity{}: ",
		`{"spec":{"template":{"spec":{"containers":[{"resources":{"requests":{"cpu":"H"}}}]}}}}`:      "spec.template.spec.containers[].resources.requests{}: ",
		`{"spec":{"metrics":[{"pods":{"target":{"averageValue":"H"}}}]}}`:                             "spec.metrics[].pods.target.averageValue: ",
		`{"capacity":"H"}`: "capacity: ",
		`{"type":"ADDED","object":{"kind":"Node"}}` + "\n" + `{"type":"ADDED","object":{"status":{"capacity":{"cpu":"H"}}}}`: "object.status.capacity{}: ",

		// Where no kind has a quantity, and what is none, is anybody's.
		`{"metadata":{"labels":{"commit":"H","capacity":"H"}},"data":{"cpu":"H"},"status":{"commit":"H"}}`:              "",
		`{"spec":{"containers":[{"env":[{"name":"COMMIT","value":"H"}],"image":"H"}]}}`:                                 "",
		`{"status":{"capacity":{"cpu":"4","memory":"16Gi","a":1e3,"b":null,"c":"12E6"}}}`:                               "",
		`{"status":{"capacity":{"a":"nine","b":"","c":"some text that is much longer than a quantity is","d":"1e3x"}}}`: "",
		`{"status":{"capacity":["H"],"allocatable":"H"}}`:                                                               "",
		`{"status":["H",{"capacity":{"cpu":"H"}}]}`:                                                                     "",
		`"H"`: "", `[{"status":{"capacity":{"cpu":"H"}}}]`: "", `]}`: "", `}{"a":,`: "", "ok": "",
	} {
		text = strings.ReplaceAll(text, "H", hostile)
		for _, size := range []int{len(text), 1} {
			scanner, err := NewScanner(places), error(nil)
			for rest := text; rest != ""; rest = rest[min(size, len(rest)):] {
				err = scanner.ScanBytes([]byte(rest[:min(size, len(rest))]))
			}
			if wants == "" && err != nil || wants != "" && (err == nil || !strings.HasPrefix(err.Error(), wants)) {
				t.Errorf("%.200s, %d bytes at a time: got %v, want an error that begins with %q", text, size, err, wants)
			}
		}
	}
}

// TestScannerKeepsLittle has it read what opens a million lists, where there may be
// quantities and where there are none.
func TestScannerKeepsLittle(t *testing.T) {
	t.Parallel()
	scanner := NewScanner(placesOfKubernetes(t))
	for _, begin := range []string{`{"status":{"capacity":{"cpu":`, `{"items":[{"spec":{"containers":[`} {
		expect.NoError(t, scanner.ScanBytes([]byte(begin+strings.Repeat(`[{"a":`, 1<<20))))
	}
	if len(scanner.open) > depthMax || len(scanner.token) > tokenMax {
		t.Errorf("%d containers and %d bytes are kept", len(scanner.open), len(scanner.token))
	}
}

// TestPlacesHaveEveryQuantity fills every quantity of every kind of Kubernetes in turn, so
// that none is in a place that is not known.
func TestPlacesHaveEveryQuantity(t *testing.T) {
	t.Parallel()
	places, found := placesOfKubernetes(t), 0
	for kind, of := range clientgoscheme.Scheme.AllKnownTypes() {
		found += everyQuantity(of, func(text string) {
			if NewScanner(places).ScanBytes([]byte(text)) == nil {
				t.Errorf("%s: %s is read", kind, text)
			}
		}, map[reflect.Type]bool{})
	}
	if found < 500 {
		t.Errorf("only %d quantities were found", found)
	}
}

// everyQuantity calls a function with JSON that has one hostile quantity, for each that a
// value of the type has, and returns how many there are.
func everyQuantity(of reflect.Type, do func(text string), around map[reflect.Type]bool) (found int) {
	if of == reflect.TypeFor[resource.Quantity]() {
		do(fmt.Sprintf("%q", hostile))
		return 1
	}
	switch of.Kind() {
	case reflect.Pointer:
		return everyQuantity(of.Elem(), do, around)
	case reflect.Slice:
		return everyQuantity(of.Elem(), func(text string) { do("[" + text + "]") }, around)
	case reflect.Map:
		return everyQuantity(of.Elem(), func(text string) { do(`{"any":` + text + "}") }, around)
	case reflect.Struct:
		if around[of] || strings.HasPrefix(of.PkgPath(), "k8s.io/apimachinery/pkg/apis/meta") {
			return 0
		}
		around[of] = true
		defer delete(around, of)
		for i := range of.NumField() {
			field := of.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch {
			case name != "":
				found += everyQuantity(field.Type, func(text string) { do(fmt.Sprintf("{%q:%s}", name, text)) }, around)
			case field.Anonymous:
				found += everyQuantity(field.Type, do, around)
			}
		}
	default:
	}
	return found
}

// nested has itself around a quantity.
type nested struct {
	metav1.TypeMeta
	Inside *nested           `json:"inside"`
	Amount resource.Quantity `json:"amount"`
}

// DeepCopyObject implements runtime.Object.
func (n *nested) DeepCopyObject() runtime.Object { return n }

func TestAKindThatNestsItselfIsNoticed(t *testing.T) {
	t.Parallel()
	kinds := runtime.NewScheme()
	kinds.AddKnownTypes(schema.GroupVersion{Group: "test", Version: "v1"}, &nested{})
	if _, err := PlacesOf(kinds); err == nil || !strings.Contains(err.Error(), "nests itself") {
		t.Errorf("it says %v", err)
	}
}
