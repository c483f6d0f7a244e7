// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package paging

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// server lists by a function of what was asked.
type server struct {
	client.Reader
	list func(ctx context.Context, page *corev1.SecretList, options *client.ListOptions) error
}

// List implements client.Reader.
func (s server) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return s.list(ctx, list.(*corev1.SecretList), (&client.ListOptions{}).ApplyOptions(options)) //nolint:forcetypeassert // see read
}

func secrets(names ...string) []corev1.Secret {
	var list []corev1.Secret
	for _, name := range names {
		secret := corev1.Secret{}
		secret.Name = name
		list = append(list, secret)
	}
	return list
}

// read returns the names of all objects.
func read(ctx context.Context, p Pages) (names []string, err error) {
	for page, err := range EachPage(ctx, p, func() *corev1.SecretList { return &corev1.SecretList{} }, client.InNamespace("here")) {
		if err != nil {
			return names, err
		}
		for _, item := range page.Items {
			names = append(names, item.Name)
		}
	}
	return names, nil
}

func TestAllPagesAreRead(t *testing.T) {
	var asked []string
	s := server{list: func(_ context.Context, page *corev1.SecretList, o *client.ListOptions) error {
		asked = append(asked, fmt.Sprintf("%s %d %s", o.Namespace, o.Limit, o.Continue))
		switch o.Continue {
		case "":
			page.Items, page.Continue = secrets("a", "b"), "b"
		case "b":
			page.Continue = "c" // a page without objects is one
		default:
			page.Items = secrets("c")
		}
		return nil
	}}
	names, err := read(t.Context(), NewPages(s, 2, 7))
	expect.NoError(t, err)
	if diff := cmp.Diff([][]string{{"a", "b", "c"}, {"here 2 ", "here 2 b", "here 2 c"}}, [][]string{names, asked}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	asked = nil
	for _, err := range EachPage(t.Context(), NewPages(s, 2, 7), func() *corev1.SecretList { return &corev1.SecretList{} }) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	if len(asked) != 1 {
		t.Errorf("it goes on reading for nobody: %q", asked)
	}
}

// TestAServerThatAlwaysHasMoreIsNotReadForever has servers whose lists have no end: the test
// would have none.
func TestAServerThatAlwaysHasMoreIsNotReadForever(t *testing.T) {
	broken := errors.New("broken")
	calls := 0
	for name, c := range map[string]struct {
		list  func(ctx context.Context, page *corev1.SecretList) error
		pages int
		is    error
		wants string
	}{
		"the same page": {func(_ context.Context, page *corev1.SecretList) error {
			page.Items, page.Continue = secrets("a"), "again"
			return nil
		}, 2, ErrUnending, "it goes on where it did before"},
		"pages without objects": {func(_ context.Context, page *corev1.SecretList) error {
			page.Continue = fmt.Sprint(calls)
			return nil
		}, 10, ErrUnending, "it has more than 100 objects, with 10 on a page"},
		"larger pages than were requested": {func(_ context.Context, page *corev1.SecretList) error {
			page.Items, page.Continue = secrets(make([]string, 50)...), fmt.Sprint(calls)
			return nil
		}, 2, ErrUnending, "it has more than 100 objects"},
		"two pages in turn": {func(_ context.Context, page *corev1.SecretList) error {
			page.Continue = fmt.Sprint(calls % 2)
			return nil
		}, 10, ErrUnending, "it has more than 100 objects"},
		"a page that never comes": {func(ctx context.Context, _ *corev1.SecretList) error {
			<-ctx.Done()
			return ctx.Err()
		}, 1, ErrUnending, "it has taken longer than 10ms"},
		"slow pages": {func(_ context.Context, page *corev1.SecretList) error {
			<-time.After(20 * time.Millisecond)
			page.Continue = fmt.Sprint(calls)
			return nil
		}, 1, ErrUnending, "it has taken longer than 10ms"},
		"a name without end": {func(_ context.Context, page *corev1.SecretList) error {
			page.Items = secrets(strings.Repeat("n", 254))
			return nil
		}, 1, nil, "a name of more than 253 characters"},
		"it fails": {func(context.Context, *corev1.SecretList) error { return broken }, 1, broken, "broken"},
	} {
		calls = 0
		pages := NewPages(server{list: func(ctx context.Context, page *corev1.SecretList, _ *client.ListOptions) error {
			calls++
			return c.list(ctx, page)
		}}, 10, 100)
		if strings.Contains(c.wants, "10ms") {
			pages.timeMax = 10 * time.Millisecond
		}
		names, err := read(t.Context(), pages)
		if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.wants) || len(err.Error()) > 200 {
			t.Errorf("%s: got %d objects and error %v, want %q", name, len(names), err, c.wants)
		}
		if calls != c.pages {
			t.Errorf("%s: %d pages were requested, want %d", name, calls, c.pages)
		}
	}
}

// TestPagesThatAreTooLargeBecomeSmaller has a server whose pages of more than three objects are
// too much for an answer from the second page on.
func TestPagesThatAreTooLargeBecomeSmaller(t *testing.T) {
	for name, tooMuch := range map[string]error{
		"too many bytes":     fmt.Errorf("reading: %w", &dial.LimitError{}),
		"too late":           &url.Error{Op: "Get", URL: "there", Err: os.ErrDeadlineExceeded},
		"the server is late": apierrors.NewTimeoutError("too late", 0),
	} {
		var asked []string
		s := server{list: func(_ context.Context, page *corev1.SecretList, o *client.ListOptions) error {
			asked = append(asked, fmt.Sprintf("%d %s", o.Limit, o.Continue))
			switch {
			case o.Continue == "":
				page.Items, page.Continue = secrets("a"), "b"
			case o.Limit > 3:
				page.Items = secrets("of no use")
				return tooMuch
			case o.Continue == "b":
				page.Items, page.Continue = secrets("b"), "c"
			default:
				page.Items = secrets("c")
			}
			return nil
		}}
		names, err := read(t.Context(), NewPages(s, 10, 100))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff([][]string{{"a", "b", "c"}, {"10 ", "10 b", "5 b", "2 b", "2 c"}}, [][]string{names, asked}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestAnObjectThatIsTooLargeIsAnError has one that no answer may have.
func TestAnObjectThatIsTooLargeIsAnError(t *testing.T) {
	calls := 0
	s := server{list: func(context.Context, *corev1.SecretList, *client.ListOptions) error {
		calls++
		return &dial.LimitError{Limit: "64 bytes"}
	}}
	_, err := read(t.Context(), NewPages(s, 8, 100))
	if limit := (*dial.LimitError)(nil); !errors.As(err, &limit) || calls != 4 {
		t.Errorf("got %v after %d requests, want that it exceeds 64 bytes after those of 8, 4, 2 and 1", err, calls)
	}
}

// TestLargeObjectsAreRead reads objects each of which an answer may have, and all of them
// together may not, as clients with these limits do.
func TestLargeObjectsAreRead(t *testing.T) {
	const count, size = 10, 7 << 20 // the limit of a list is 64 MiB
	filler := strings.Repeat("<", size)
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first, _ := strconv.Atoi(r.FormValue("continue")) // 0 without one
		limit, _ := strconv.Atoi(r.FormValue("limit"))
		end, next := min(first+limit, count), ""
		if end < count {
			next = strconv.Itoa(end)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"kind":"SecretList","apiVersion":"v1","metadata":{"continue":%q},"items":[`, next)
		for n := first; n < end; n++ {
			_, _ = fmt.Fprintf(w, `%.*s{"metadata":{"name":"secret-%d","annotations":{"filler":"`, min(n-first, 1), ",", n)
			_, _ = io.WriteString(w, filler)
			_, _ = io.WriteString(w, `"}}}`)
		}
		_, _ = io.WriteString(w, `]}`)
	}))
	defer there.Close()
	config := &rest.Config{Host: there.URL}
	dial.LimitAnswers(config)
	if names, err := read(t.Context(), NewPages(clientOf(t, config), count, count)); err != nil || len(names) != count {
		t.Errorf("%d of %d objects are read, and error %v", len(names), count, err)
	}
}

// TestAServerThatIsNotReachedIsAskedOnce has servers to which there is no connection in time, and
// counts the attempts to make one.
func TestAServerThatIsNotReachedIsAskedOnce(t *testing.T) {
	mute, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // accepts connections and says nothing
	expect.NoError(t, err)
	defer func() { _ = mute.Close() }()
	late := &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	reached := &net.Dialer{}
	for name, transport := range map[string]*http.Transport{
		"nobody answers at the address": {DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, late }},
		"the TLS handshake takes too long": {
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return reached.DialContext(ctx, network, mute.Addr().String())
			},
			TLSHandshakeTimeout: 50 * time.Millisecond,
		},
		"the proxy cannot be reached": {
			Proxy:       http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy.example.com"}),
			DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, late },
		},
	} {
		connects, dial := 0, transport.DialContext
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			connects++
			return dial(ctx, network, address)
		}
		c := clientOf(t, &rest.Config{Host: "https://hub.example.com", Transport: transport})
		var network net.Error
		if _, err := read(t.Context(), NewPages(c, 8, 100)); !errors.As(err, &network) || !network.Timeout() || connects != 1 {
			t.Errorf("%s: got %v after %d attempts, want the timeout of the first", name, err, connects)
		}
	}
}

// clientOf returns a client that knows Secrets.
func clientOf(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	c, err := client.New(config, client.Options{Mapper: mapper})
	expect.NoError(t, err)
	return c
}
