package queue

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/rein-aharness/harness/evidence"
)

// The headers of a delivery. The signature is "v1=" and the HMAC-SHA256, in hex, of the timestamp, a dot and the body. A receiver
// checks it, refuses an old timestamp, and takes one delivery id once: a delivery may arrive more than once.
const (
	HeaderDelivery  = "Harness-Delivery"
	HeaderRecord    = "Harness-Record"    // what the body is: result, history or metrics
	HeaderTimestamp = "Harness-Timestamp" // Unix seconds
	HeaderSignature = "Harness-Signature"
)

const (
	deliveryTimeout = 30 * time.Second
	firstRetry      = 5 * time.Second
	longestRetry    = time.Hour
	// bestEffortAttempts is after how many a delivery that is not required is abandoned: about eleven minutes.
	bestEffortAttempts = 8
	minKeyBytes        = 16
)

// retryAfter is the pause after a number of failed attempts.
func retryAfter(attempts int) time.Duration {
	return min(firstRetry<<min(max(attempts-1, 0), 20), longestRetry)
}

// Deliver makes one attempt at a delivery, if it is due. The next attempt's time is set before the send, so that an attempt whose
// process dies is made again. (A48)
func (s *Store) Deliver(ctx context.Context, id string) error {
	var d Delivery
	var body []byte
	err := s.pool.QueryRow(ctx, `SELECT attempts FROM delivery WHERE id = $1`, id).Scan(&d.Attempts)
	if err != nil {
		return fmt.Errorf("read delivery %s: %w", id, err)
	}
	err = s.pool.QueryRow(ctx, `
		UPDATE delivery SET attempts = attempts + 1, next_attempt_at = clock_timestamp() + $3 * interval '1 millisecond'
		WHERE id = $1 AND state = 'pending' AND attempts = $2 AND next_attempt_at <= clock_timestamp()
		RETURNING run_id, endpoint, record, required, attempts, body`, id, d.Attempts, retryAfter(d.Attempts+1).Milliseconds()).
		Scan(&d.Run, &d.Endpoint, &d.Record, &d.Required, &d.Attempts, &body)
	if isNone(err) {
		return nil // another attempt has it
	}
	if err != nil {
		return fmt.Errorf("begin delivery %s: %w", id, err)
	}
	failure := s.post(ctx, d, id, body)
	state, text := DeliveryDelivered, ""
	if failure != nil {
		state, text = DeliveryPending, evidence.Clean(failure.Error(), 256)
		if !d.Required && d.Attempts >= bestEffortAttempts {
			state = DeliveryAbandoned
		}
	}
	// On a context of its own: what was sent was sent.
	note, cancel := context.WithTimeout(context.WithoutCancel(ctx), deliveryTimeout)
	defer cancel()
	_, err = s.pool.Exec(note, `
		UPDATE delivery SET state = $2, last_error = $3, finished_at = CASE WHEN $2 = 'pending' THEN NULL ELSE clock_timestamp() END
		WHERE id = $1 AND state = 'pending'`, id, state, text)
	if err != nil {
		return errors.Join(failure, fmt.Errorf("note delivery %s: %w", id, err))
	}
	if failure != nil {
		return evidence.Fail(evidence.StageDeliver, evidence.CodeDeliveryFailed, d.Endpoint, failure)
	}
	return nil
}

// post sends the body to the endpoint. Its error says neither URL nor answer, which may hold secrets.
func (s *Store) post(ctx context.Context, d Delivery, id string, body []byte) error {
	e, err := s.endpoint(d.Endpoint)
	if err != nil {
		return err
	}
	key, err := readKey(e.KeyFile)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, deliveryTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("the endpoint's URL cannot be asked")
	}
	timestamp := strconv.FormatInt(s.Now().Unix(), 10)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(HeaderDelivery, id)
	request.Header.Set(HeaderRecord, string(d.Record))
	request.Header.Set(HeaderTimestamp, timestamp)
	request.Header.Set(HeaderSignature, sign(key, timestamp, body))
	response, err := s.webhook.Do(request)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return fmt.Errorf("no answer: %w", err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)); err != nil {
		return fmt.Errorf("the answer broke off: %w", err)
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("answered with status %d", response.StatusCode)
	}
	return nil
}

func (s *Store) endpoint(name string) (Endpoint, error) {
	for _, e := range s.config.Endpoints {
		if e.Name == name {
			return e, nil
		}
	}
	return Endpoint{}, errors.New("this worker has no such endpoint configured")
}

func readKey(path string) ([]byte, error) {
	key, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the endpoint's key: %w", err)
	}
	key = bytes.TrimRight(key, "\r\n")
	if len(key) < minKeyBytes {
		return nil, fmt.Errorf("the endpoint's key has fewer than %d bytes", minKeyBytes)
	}
	return key, nil
}

func sign(key []byte, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return "v1=" + hex.EncodeToString(mac.Sum(nil))
}

// newWebhookClient follows no redirect: a signed result goes where it was addressed.
func newWebhookClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxIdleConns: 8, IdleConnTimeout: 30 * time.Second,
			TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: deliveryTimeout,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
